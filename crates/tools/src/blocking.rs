//! Blocking work, off the threads of the runtime.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::Error;

/// Signals to work on another thread that its caller has stopped waiting.
#[derive(Debug, Clone, Default)]
pub(crate) struct CancelFlag(Arc<AtomicBool>);

impl CancelFlag {
    pub(crate) fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

struct OnDrop(CancelFlag);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// Runs blocking work. Long work checks periodically whether it was abandoned.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce(&CancelFlag) -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let abandoned = CancelFlag::default();
    let _guard = OnDrop(abandoned.clone());
    tokio::task::spawn_blocking(move || work(&abandoned)).await.unwrap_or(Err(Error::Interrupted))
}
