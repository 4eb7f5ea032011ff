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
type CheckCreatable = dyn Fn() -> Result<(), Error> + Send + Sync;

/// Runtime that is opened once, on first use.
#[derive(Clone)]
pub struct LazyRuntime {
    open: Arc<Open>,
    fresh: Arc<Fresh>,
    check_creatable: Arc<CheckCreatable>,
    runtime: Arc<OnceCell<Runtime>>,
}

impl LazyRuntime {
    /// Creates a host that opens its runtime with `open`, which may block.
    pub fn new(open: impl Fn() -> Result<Runtime, Error> + Send + Sync + 'static) -> Self {
        Self {
            open: Arc::new(open),
            fresh: Arc::new(|| false),
            check_creatable: Arc::new(|| Ok(())),
            runtime: Arc::default(),
        }
    }

    /// Creates a host for a realm, which is created on first use. `warn` receives the realm's warnings.
    pub fn on_realm(
        options: RealmOptions,
        runtime: impl Fn() -> RuntimeOptions + Send + Sync + 'static,
        warn: impl Fn(&str) + Send + Sync + 'static,
    ) -> Self {
        let (root, id) = (options.state_root.clone(), options.realm.clone());
        let creatable = options.clone();
        let open = move || {
            let realm = Realm::open(options.clone())?;
            realm.warnings().iter().for_each(|warning| warn(&warning.to_string()));
            Ok(Runtime::new(realm, runtime()))
        };
        // An existing realm that cannot be read is reported when it is opened.
        let is_missing = move || {
            RealmManifest::read(&root, &id).is_err_and(|error| error.kind() == ErrorKind::InvalidParams)
        };
        // A read must not create the realm.
        Self {
            fresh: Arc::new(is_missing),
            check_creatable: Arc::new(move || Ok(creatable.check_creatable()?)),
            ..Self::new(open)
        }
    }

    /// Returns `true` if the realm does not exist yet and no runtime is open.
    pub(crate) fn is_fresh(&self) -> bool {
        !self.runtime.initialized() && (self.fresh)()
    }

    /// Returns `true` if the realm does not exist yet and can be created, or `false` if it exists.
    ///
    /// # Errors
    /// Returns an error if the realm does not exist and cannot be created.
    pub async fn is_creatable(&self) -> Result<bool, Error> {
        let host = self.clone();
        let check = move || match host.is_fresh() {
            true => (host.check_creatable)().map(|()| true),
            false => Ok(false),
        };
        let checking = tokio::task::spawn_blocking(check);
        checking.await.unwrap_or_else(|error| Err(Error::Internal(error.to_string())))
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
