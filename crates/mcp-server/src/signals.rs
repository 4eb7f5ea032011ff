//! Signals that shut a server down.

/// Starts listening for shutdown signals; the future completes on the first one.
///
/// Call this inside a tokio runtime, before announcing that the server is ready.
#[cfg(unix)]
pub fn shutdown_signal() -> impl Future<Output = ()> {
    use tokio::signal::unix::{Signal, SignalKind, signal};

    /// Waits for a signal; never completes if its listener could not be installed.
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

/// Completes when the process is asked to shut down.
#[cfg(not(unix))]
pub async fn shutdown_signal() {
    let _ = tokio::signal::ctrl_c().await;
}
