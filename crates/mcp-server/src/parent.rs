//! The process that started this one. When it dies, it may leave the other end of our stdin to somebody who
//! never closes it; a server without its client has nothing left to do.

#[cfg(unix)]
use std::time::Duration;

/// How often is looked.
#[cfg(unix)]
const ROUND: Duration = Duration::from_millis(500);

/// Returns when the process that started this one is gone.
#[cfg(unix)]
pub(crate) async fn gone() {
    let parent = rustix::process::getppid();
    // Started by init, or by nobody we can see: there is none to wait for.
    if parent.is_none_or(rustix::process::Pid::is_init) {
        std::future::pending::<()>().await;
    }
    while rustix::process::getppid() == parent {
        tokio::time::sleep(ROUND).await;
    }
}

/// Returns when the process that started this one is gone, where that can be told.
#[cfg(not(unix))]
pub(crate) async fn gone() {
    std::future::pending::<()>().await;
}
