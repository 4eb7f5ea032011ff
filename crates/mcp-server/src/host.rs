//! The runtime behind a server, opened when it is first needed.
//!
//! Nothing is opened before the first call: a client gets its first answer at once, and a realm that cannot
//! be opened is an error of that call, while the server goes on. The next call tries again.

use std::sync::Arc;
use std::time::Duration;

use meerkat::{Error, Runtime};
use tokio::sync::OnceCell;

type Open = dyn Fn() -> Result<Runtime, Error> + Send + Sync;

/// Opens a runtime once and keeps it.
#[derive(Clone)]
pub struct Host {
    open: Arc<Open>,
    runtime: Arc<OnceCell<Runtime>>,
}

impl Host {
    /// Makes a host that opens its runtime with `open`, which may block.
    pub fn new(open: impl Fn() -> Result<Runtime, Error> + Send + Sync + 'static) -> Self {
        Self { open: Arc::new(open), runtime: Arc::default() }
    }

    /// Returns the runtime, opening it if need be.
    ///
    /// # Errors
    /// Says why it cannot be opened.
    pub async fn runtime(&self) -> Result<&Runtime, Error> {
        let open = Arc::clone(&self.open);
        let opened = async {
            let opening = tokio::task::spawn_blocking(move || open());
            opening.await.unwrap_or_else(|error| Err(Error::Internal(error.to_string())))
        };
        self.runtime.get_or_try_init(|| opened).await
    }

    /// Interrupts every run and waits until all have committed their end, or until the time is up.
    pub async fn shutdown(&self, patience: Duration) {
        if let Some(runtime) = self.runtime.get() {
            runtime.shutdown(patience).await;
        }
    }
}
