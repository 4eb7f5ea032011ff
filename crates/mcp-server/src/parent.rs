//! The process that started this one. When it dies, it may leave the other end of our stdin to somebody who
//! never closes it; a server without its client has nothing left to do.

#[cfg(unix)]
use meerkat_mcp_server::lifetime::PARENT_ROUND;

/// Remembers the process that started this one; the future returns when it is gone.
///
/// Call it before anybody is told that the server is there: once the parent has died, it cannot be found out.
#[cfg(unix)]
pub(crate) fn gone() -> impl Future<Output = ()> {
    let parent = rustix::process::getppid();
    async move {
        // Started by init, or by nobody we can see: there is none to wait for.
        if parent.is_none_or(rustix::process::Pid::is_init) {
            std::future::pending::<()>().await;
        }
        while rustix::process::getppid() == parent {
            tokio::time::sleep(PARENT_ROUND).await;
        }
    }
}

/// Returns when the process that started this one is gone, where that can be told.
#[cfg(not(unix))]
pub(crate) async fn gone() {
    std::future::pending::<()>().await;
}
