//! `rkat realm prune`.

use std::path::Path;
use std::time::Duration;

use meerkat::{ArchivedFilter, Clock as _, Force, Realm, RealmInfo, RealmOrigin, SystemClock, Timestamp};

use crate::env;
use crate::error::CliError;
use crate::out;
use crate::render::{ago, table};

/// Returns the kinds of realms to prune; never those with a name.
pub(super) fn kinds(directories: bool) -> Vec<RealmOrigin> {
    let directories = directories.then_some(RealmOrigin::Workspace);
    std::iter::once(RealmOrigin::Generated).chain(directories).collect()
}

/// Shows the realms that were not used for some hours, and deletes them if forced.
pub(super) fn prune(
    state_root: &Path,
    kinds: &[RealmOrigin],
    hours: u64,
    force: Force,
) -> Result<(), CliError> {
    let now = SystemClock.now();
    let since = now.checked_sub(Duration::from_secs(hours.saturating_mul(3600))).unwrap_or(Timestamp::MIN);
    let now = now.as_second();
    let listing = Realm::list(state_root)?;
    listing.broken.iter().for_each(out::warn);
    let is_old = |info: &RealmInfo| !info.in_use && info.last_used <= since;
    let chosen = listing.realms.iter().filter(|info| is_old(info) && kinds.contains(&info.manifest.origin));
    let chosen: Vec<_> = chosen.collect();
    if chosen.is_empty() {
        out::stderr_line("no realms to prune");
        return Ok(());
    }
    let rows: Vec<_> = chosen.iter().map(|info| row(state_root, info, now)).collect();
    out::print(&table(&["REALM", "SESSIONS", "USED", "DIRECTORY"], &rows, env::page()));
    if force == Force::No {
        out::stderr_line("nothing was deleted; add --force to delete these realms with their sessions");
        return Ok(());
    }
    let mut failed = None;
    for realm in chosen.iter().map(|info| &info.manifest.realm_id) {
        match Realm::delete_unused(state_root, realm, since) {
            Ok(true) => out::line(&format!("deleted {realm}")),
            Ok(false) => out::warn(format!("realm `{realm}` was used meanwhile, and is kept")),
            Err(error) if failed.is_none() => failed = Some(error),
            Err(error) => out::warn(&error),
        }
    }
    failed.map_or(Ok(()), |error| Err(error.into()))
}

fn row(state_root: &Path, RealmInfo { manifest, last_used, .. }: &RealmInfo, now: i64) -> Vec<String> {
    let sessions = Realm::count_sessions(state_root, &manifest.realm_id, ArchivedFilter::Included);
    vec![
        manifest.realm_id.to_string(),
        sessions.map_or_else(|_| "?".to_owned(), |sessions| sessions.to_string()),
        ago(now - last_used.as_second()),
        manifest.workspace.clone().unwrap_or_else(|| "-".to_owned()),
    ]
}
