//! `rkat realm`.

mod backup;
mod delete;
mod prune;

use std::path::Path;

use meerkat::{
    Clock as _, DefaultRealm, Force, Realm, RealmId, RealmInfo, RealmManifest, RealmOptions, RealmOrigin,
    SystemClock, adopt_realm,
};
use serde_json::{Value, json};

use super::print_json;
use crate::args::RealmCommand;
use crate::env;
use crate::error::CliError;
use crate::out;
use crate::render::{ago, size, table};
use crate::scope::Scope;

pub(super) fn realm(scope: &Scope, command: RealmCommand) -> Result<(), CliError> {
    let state_root = scope.state_root()?;
    match command {
        RealmCommand::Current => out::line(&scope.options()?.realm.to_string()),
        RealmCommand::List { json } => list(&state_root, json)?,
        RealmCommand::Show { id, json } => {
            let id: RealmId = id.parse()?;
            let manifest = RealmManifest::read(&state_root, &id)?;
            show(&state_root, &manifest, json);
        }
        RealmCommand::Create { id, backend } => create(scope, &id, backend)?,
        RealmCommand::Adopt { id } => adopt(scope, &id.parse()?)?,
        RealmCommand::Delete { id, force } => {
            delete::delete(&state_root, &id.parse()?, or_force(force))?;
        }
        RealmCommand::Backup { id, file, force, json } => {
            backup::backup(&state_root, &id.parse()?, &file, or_force(force), json)?;
        }
        RealmCommand::Restore { file, name, json } => {
            backup::restore(&state_root, &file, name.as_deref(), json)?;
        }
        // Realms of directories are pruned only on request.
        RealmCommand::Prune { directories, isolated_only: _, older_than_hours, force } => {
            prune::prune(&state_root, &prune::kinds(directories), older_than_hours, or_force(force))?;
        }
    }
    Ok(())
}

/// Returns the meaning of `--force`.
const fn or_force(given: bool) -> Force {
    if given { Force::Yes } else { Force::No }
}

fn create(scope: &Scope, id: &str, backend: Option<meerkat::Backend>) -> Result<(), CliError> {
    if backend == Some(meerkat::Backend::Memory) {
        let message = "an in-memory realm ends with its process, so there is nothing to create";
        return Err(CliError::Usage(message.to_owned()));
    }
    let mut scope = scope.with_realm(Some(id));
    scope.flags.backend = backend;
    let realm = Realm::open(scope.options()?)?;
    realm.warnings().iter().for_each(out::warn);
    out::line(&format!("{} ({})", realm.id(), realm.backend()));
    Ok(())
}

fn adopt(scope: &Scope, id: &RealmId) -> Result<(), CliError> {
    let mut scope = scope.clone();
    (scope.flags.realm, scope.default_realm) = (None, DefaultRealm::Project);
    let RealmOptions { state_root, realm, workspace, .. } = scope.options()?;
    let directory = workspace.unwrap_or_default();
    adopt_realm(&state_root, id, &realm, &directory)?;
    out::line(&format!("realm {id} is now {realm}, the realm of {}", directory.display()));
    Ok(())
}

fn as_json(state_root: &Path, manifest: &RealmManifest) -> Value {
    json!({
        "realm_id": manifest.realm_id,
        "backend": manifest.backend,
        "origin": manifest.origin,
        "created_at": manifest.created_at.as_second(),
        "workspace": manifest.workspace,
        "root": state_root.join(manifest.realm_id.as_str()),
    })
}

fn list(state_root: &Path, json: bool) -> Result<(), CliError> {
    let listing = Realm::list(state_root)?;
    listing.broken.iter().for_each(out::warn);
    if json {
        let realm = |info: &RealmInfo| {
            let mut realm = as_json(state_root, &info.manifest);
            realm["in_use"] = json!(info.in_use);
            realm["last_used_at"] = json!(info.last_used.as_second());
            realm["bytes"] = json!(info.bytes);
            realm
        };
        print_json(&json!({ "realms": listing.realms.iter().map(realm).collect::<Vec<_>>() }));
        return Ok(());
    }
    if listing.realms.is_empty() {
        out::stderr_line(&format!("no realms in `{}`", state_root.display()));
        return Ok(());
    }
    let now = SystemClock.now().as_second();
    let row = |info: &RealmInfo| {
        let manifest = &info.manifest;
        vec![
            manifest.realm_id.to_string(),
            manifest.backend.to_string(),
            origin(manifest.origin).to_owned(),
            ago(now - manifest.created_at.as_second()),
            ago(now - info.last_used.as_second()),
            size(info.bytes),
            if info.in_use { "in use".to_owned() } else { String::new() },
        ]
    };
    let rows: Vec<_> = listing.realms.iter().map(row).collect();
    out::print(&table(&["REALM", "BACKEND", "ORIGIN", "CREATED", "USED", "SIZE", ""], &rows, env::page()));
    Ok(())
}

fn show(state_root: &Path, manifest: &RealmManifest, json: bool) {
    let value = as_json(state_root, manifest);
    if json {
        return print_json(&value);
    }
    for key in ["realm_id", "backend", "origin", "root"] {
        out::line(&format!("{key:<10}{}", value[key].as_str().unwrap_or_default()));
    }
}

const fn origin(origin: RealmOrigin) -> &'static str {
    match origin {
        RealmOrigin::Generated => "isolated",
        RealmOrigin::Workspace => "workspace",
        RealmOrigin::Explicit => "named",
        RealmOrigin::LegacyUnknown => "unknown",
    }
}
