//! Sessions of this directory in a realm other than the current one: an earlier version chose a different realm, or the
//! directory became part of a project.

use std::path::Path;

use meerkat::{ArchivedFilter, DefaultRealm, Realm, RealmId, RealmManifest, RealmOrigin};

use crate::env;
use crate::out;
use crate::render;
use crate::scope::Scope;

/// Prints one line if sessions of this directory may be in another realm.
pub(super) fn print_notice(scope: &Scope) {
    if let Some((message, command)) = find(scope) {
        out::stderr_line(&format!("notice: {message}; to list them, run {command}"));
    }
}

/// Returns a message and the command that lists the sessions, unless the user named a realm.
pub(super) fn find(scope: &Scope) -> Option<(String, String)> {
    if scope.default_realm == DefaultRealm::Isolated {
        return None;
    }
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
    Some((message, commands.collect::<Vec<_>>().join(" and ")))
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
