//! Detection of the parent's exit. Another process may hold the other end of our stdin open after the parent exits,
//! but a server without its client has nothing left to do.

#[cfg(unix)]
use meerkat_mcp_server::lifetime::PARENT_POLL_INTERVAL;

/// Records the parent process; the future completes when that process has exited.
///
/// Call this before announcing that the server is ready: the original parent is unknown once it has exited.
#[cfg(unix)]
pub(crate) fn parent_exited() -> impl Future<Output = ()> {
    let parent = rustix::process::getppid();
    async move {
        // Started by init, or by a process outside this namespace: there is no parent to wait for.
        if parent.is_none_or(rustix::process::Pid::is_init) {
            std::future::pending::<()>().await;
        }
        while rustix::process::getppid() == parent {
            tokio::time::sleep(PARENT_POLL_INTERVAL).await;
        }
    }
}

/// Never completes: the parent's exit cannot be detected on this platform.
#[cfg(not(unix))]
pub(crate) async fn parent_exited() {
    std::future::pending::<()>().await;
}
