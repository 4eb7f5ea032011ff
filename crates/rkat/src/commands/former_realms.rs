//! Sessions of this directory in a realm other than the current one: an earlier version chose a different realm, the
//! directory became part of a project, or it was renamed.

use std::path::Path;

use meerkat::{ArchivedFilter, DefaultRealm, Realm, RealmId, RealmManifest, RealmOptions, RealmOrigin};

use crate::env;
use crate::out;
use crate::render;
use crate::scope::Scope;

/// Prints one line if sessions of this directory may be in another realm.
pub(super) fn print_notice(scope: &Scope) {
    if let Some((message, fix)) = find(scope) {
        out::stderr_line(&format!("notice: {message}; {fix}"));
    }
}

/// Returns a message and what to do, unless the user named a realm.
pub(super) fn find(scope: &Scope) -> Option<(String, String)> {
    if scope.default_realm == DefaultRealm::Isolated || scope.flags.realm.is_some() {
        return None;
    }
    find_former(scope).or_else(|| find_renamed(scope))
}

/// Finds the realm of this directory before it was renamed, if it has no sessions of its own.
fn find_renamed(scope: &Scope) -> Option<(String, String)> {
    let RealmOptions { state_root, realm, workspace, .. } = scope.options().ok()?;
    let has_sessions = |realm: &RealmId| {
        Realm::count_sessions(&state_root, realm, ArchivedFilter::Included).is_ok_and(|count| count > 0)
    };
    if has_sessions(&realm) {
        return None;
    }
    let workspace = workspace?;
    let found = Realm::list(&state_root).ok()?.realms.into_iter().map(|info| info.manifest);
    let kin = found.filter_map(|manifest| Some((manifest.kinship(&workspace)?, manifest)));
    let (_, former) = kin.filter(|(_, other)| has_sessions(&other.realm_id)).max_by_key(|(kin, _)| *kin)?;
    let (id, dir) = (&former.realm_id, former.workspace.unwrap_or_default());
    let root = render::state_root_option(scope.flags.state_root.as_deref());
    let message = format!("realm `{id}` has the sessions of `{dir}`, which no longer exists");
    let fix = format!("if this directory was `{dir}`, run `rkat {root}realm adopt {id}`");
    Some((message, fix))
}

fn find_former(scope: &Scope) -> Option<(String, String)> {
    let system_dirs = env::system_dirs();
    let state_root = scope.state_root().ok()?;
    let realms = scope.flags.former_realms(&system_dirs).ok()?;
    let dir = system_dirs.current_dir.as_deref();
    let counted = realms.into_iter().filter_map(|realm| Some((count(&state_root, &realm, dir)?, realm)));
    let (counts, realms): (Vec<u64>, Vec<RealmId>) = counted.unzip();
    if realms.is_empty() {
        return None;
    }
    let root = render::state_root_option(scope.flags.state_root.as_deref());
    let commands = realms.iter().map(|realm| format!("`rkat {root}--realm {realm} session list`"));
    let sessions = render::count(counts.iter().sum::<u64>(), "session");
    let message = format!("{sessions} in another realm may belong to this directory");
    Some((message, format!("to list them, run {}", commands.collect::<Vec<_>>().join(" and "))))
}

/// Counts the sessions of a realm that may belong to this directory. Manifests of earlier versions do not record the
/// directory.
fn count(state_root: &Path, realm: &RealmId, dir: Option<&Path>) -> Option<u64> {
    let manifest = RealmManifest::read(state_root, realm).ok()?;
    let is_here = |workspace: &String| dir.is_some_and(|dir| Path::new(workspace) == dir);
    if manifest.origin != RealmOrigin::Workspace || !manifest.workspace.as_ref().is_none_or(is_here) {
        return None;
    }
    Realm::count_sessions(state_root, realm, ArchivedFilter::Hidden).ok().filter(|count| *count > 0)
}
