//! Runtime behind a server, opened on first use.
//!
//! Nothing is opened before the first call: clients get their first response immediately, and failing to open the realm
//! is an error of that call only. The next call tries again.

use std::sync::Arc;
use std::time::Duration;

use meerkat::{Error, ErrorKind, Realm, RealmManifest, RealmOptions, Runtime, RuntimeOptions};
use tokio::sync::OnceCell;

type Open = dyn Fn() -> Result<Runtime, Error> + Send + Sync;
type Fresh = dyn Fn() -> bool + Send + Sync;

/// Runtime that is opened once, on first use.
#[derive(Clone)]
pub struct LazyRuntime {
    open: Arc<Open>,
    fresh: Arc<Fresh>,
    runtime: Arc<OnceCell<Runtime>>,
}

impl LazyRuntime {
    /// Creates a host that opens its runtime with `open`, which may block.
    pub fn new(open: impl Fn() -> Result<Runtime, Error> + Send + Sync + 'static) -> Self {
        Self { open: Arc::new(open), fresh: Arc::new(|| false), runtime: Arc::default() }
    }

    /// Creates a host for a realm, which is created on first use. `warn` receives the realm's warnings.
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
        // An existing realm that cannot be read is reported when it is opened.
        let is_missing = move || {
            RealmManifest::read(&root, &id).is_err_and(|error| error.kind() == ErrorKind::InvalidParams)
        };
        Self::new(open).with_fresh(is_missing)
    }

    /// Sets the check for a realm that does not exist yet, because a read must not create it.
    fn with_fresh(mut self, fresh: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.fresh = Arc::new(fresh);
        self
    }

    /// Returns `true` if the realm does not exist yet and no runtime is open.
    pub(crate) fn is_fresh(&self) -> bool {
        !self.runtime.initialized() && (self.fresh)()
    }

    /// Returns the runtime, opening it if necessary.
    ///
    /// # Errors
    /// Returns an error if the runtime cannot be opened.
    pub async fn runtime(&self) -> Result<&Runtime, Error> {
        let open = Arc::clone(&self.open);
        let opened = async {
            let opening = tokio::task::spawn_blocking(move || open());
            opening.await.unwrap_or_else(|error| Err(Error::Internal(error.to_string())))
        };
        self.runtime.get_or_try_init(|| opened).await
    }

    /// Interrupts every run and waits until all have committed their final state, or until the timeout.
    pub async fn shutdown(&self, timeout: Duration) {
        if let Some(runtime) = self.runtime.get() {
            runtime.shutdown(timeout).await;
        }
    }
}
