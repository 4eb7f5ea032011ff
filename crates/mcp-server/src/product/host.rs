//! The runtime behind a server, opened when it is first needed.
//!
//! Nothing is opened before the first call: a client gets its first answer at once, and a realm that cannot
//! be opened is an error of that call, while the server goes on. The next call tries again.

use std::sync::Arc;
use std::time::Duration;

use meerkat::{Error, ErrorKind, Manifest, Realm, RealmOptions, Runtime, RuntimeOptions};
use tokio::sync::OnceCell;

type Open = dyn Fn() -> Result<Runtime, Error> + Send + Sync;
type Fresh = dyn Fn() -> bool + Send + Sync;

/// Opens a runtime once and keeps it.
#[derive(Clone)]
pub struct Host {
    open: Arc<Open>,
    fresh: Arc<Fresh>,
    runtime: Arc<OnceCell<Runtime>>,
}

impl Host {
    /// Makes a host that opens its runtime with `open`, which may block.
    pub fn new(open: impl Fn() -> Result<Runtime, Error> + Send + Sync + 'static) -> Self {
        Self { open: Arc::new(open), fresh: Arc::new(|| false), runtime: Arc::default() }
    }

    /// Makes a host on a realm, which is made when it is first needed. `warn` takes what is odd about it.
    pub fn on_realm(
        options: RealmOptions,
        runtime: impl Fn() -> RuntimeOptions + Send + Sync + 'static,
        warn: impl Fn(&str) + Send + Sync + 'static,
    ) -> Self {
        let (root, id) = (options.state_root.clone(), options.realm.clone());
        let open = move || {
            let realm = Realm::open(options.clone())?;
            realm.warnings().iter().for_each(|warning| warn(&warning.to_string()));
            Ok(Runtime::new(realm, runtime()))
        };
        // A realm that is there and cannot be read is told when it is opened.
        let is_missing =
            move || Manifest::read(&root, &id).is_err_and(|error| error.kind() == ErrorKind::InvalidParams);
        Self::new(open).with_fresh(is_missing)
    }

    /// Sets how to tell that there is no realm yet: nothing is made just because somebody looks.
    fn with_fresh(mut self, fresh: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.fresh = Arc::new(fresh);
        self
    }

    /// Says whether nothing was ever stored, and nothing is opened.
    pub(crate) fn is_fresh(&self) -> bool {
        !self.runtime.initialized() && (self.fresh)()
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
