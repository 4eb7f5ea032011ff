//! `rkat realm delete`.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use meerkat::{Force, Realm, RealmId, RealmUser};

use crate::error::CliError;
use crate::out;

/// Time that processes get to finish their runs and exit.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between checks for running processes.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

pub(super) fn delete(state_root: &Path, realm: &RealmId, force: Force) -> Result<(), CliError> {
    if force == Force::Yes {
        stop_users(state_root, realm)?;
    }
    Realm::delete(state_root, realm, force)?;
    out::line(&format!("deleted {realm}"));
    Ok(())
}

/// Asks the processes that use a realm to stop, and waits for them.
fn stop_users(state_root: &Path, realm: &RealmId) -> Result<(), CliError> {
    for user in Realm::users(state_root, realm)? {
        out::stderr_line(&format!("stopping {}", name(&user)));
        user.pid.into_iter().for_each(terminate);
    }
    let deadline = Instant::now() + STOP_TIMEOUT;
    let mut left = Realm::users(state_root, realm)?;
    while left.iter().any(|user| user.pid.is_some()) && Instant::now() < deadline {
        sleep(POLL_INTERVAL);
        left = Realm::users(state_root, realm)?;
    }
    for user in &left {
        out::warn(format_args!("{} is still running, and can store nothing more in {realm}", name(user)));
    }
    Ok(())
}

fn name(RealmUser { surface, instance, pid }: &RealmUser) -> String {
    let pid = pid.map_or_else(|| "in another container".to_owned(), |pid| format!("pid {pid}"));
    format!("{surface} `{instance}` ({pid})")
}

#[cfg(unix)]
fn terminate(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    // The process may have exited.
    let _ = pid.map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::TERM));
}

#[cfg(not(unix))]
fn terminate(_: u32) {}
