//! Interrupting a run with a signal.

use tokio_util::sync::CancellationToken;

use crate::out;

/// Interrupts the run at the first Ctrl-C or termination signal; the second one exits immediately.
pub(super) fn interrupt_on_ctrl_c() -> CancellationToken {
    let cancel = CancellationToken::new();
    let token = cancel.clone();
    tokio::spawn(async move {
        shutdown_signal().await;
        out::note("interrupting; press Ctrl-C again to exit immediately");
        token.cancel();
        shutdown_signal().await;
        std::process::exit(130);
    });
    cancel
}

/// Waits for Ctrl-C or SIGTERM. SIGHUP keeps its default effect.
async fn shutdown_signal() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}
