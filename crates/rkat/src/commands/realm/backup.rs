//! `rkat realm backup` and `rkat realm restore`.

use std::path::Path;

use meerkat::{Backup, Force, RealmId};
use serde_json::json;

use super::print_json;
use crate::error::CliError;
use crate::out;
use crate::render::{count, size};

pub(super) fn backup(
    state_root: &Path,
    realm: &RealmId,
    file: &Path,
    force: Force,
    json: bool,
) -> Result<(), CliError> {
    let done = Backup::write(state_root, realm, file, force)?;
    report("backed up", &done, &format!("to {}", file.display()), json);
    Ok(())
}

pub(super) fn restore(
    state_root: &Path,
    file: &Path,
    name: Option<&str>,
    json: bool,
) -> Result<(), CliError> {
    let name = name.map(RealmId::explicit).transpose()?;
    let done = Backup::restore(state_root, file, name)?;
    report("restored", &done, &format!("from {}", file.display()), json);
    Ok(())
}

fn report(done: &str, Backup { manifest, sessions, bytes }: &Backup, file: &str, json: bool) {
    let realm = &manifest.realm_id;
    if json {
        return print_json(&json!({ "realm_id": realm, "sessions": sessions, "bytes": bytes }));
    }
    out::line(&format!("{done} {realm} {file} ({}, {})", count(sessions, "session"), size(*bytes)));
}
