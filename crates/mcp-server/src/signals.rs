//! The signals that end a server.

/// Listens for the signals that ask the process to end, from now on; the future returns with the first.
///
/// Call it inside a tokio runtime and before anybody is told that the server is there.
#[cfg(unix)]
pub fn terminated() -> impl Future<Output = ()> {
    use tokio::signal::unix::{Signal, SignalKind, signal};

    /// A signal that cannot be listened for never comes.
    async fn next(listener: Option<Signal>) {
        match listener {
            Some(mut listener) => drop(listener.recv().await),
            None => std::future::pending().await,
        }
    }

    let [interrupt, terminate, hangup] =
        [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()]
            .map(|kind| signal(kind).ok());
    async move {
        tokio::select! {
            () = next(interrupt) => {}
            () = next(terminate) => {}
            () = next(hangup) => {}
        }
    }
}

/// Returns when the process is asked to end.
#[cfg(not(unix))]
pub async fn terminated() {
    let _ = tokio::signal::ctrl_c().await;
}
