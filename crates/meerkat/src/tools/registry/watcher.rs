//! Contents of the registry, read again whenever they change.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use meerkat_registry::{BusError, Prompts, Registry, Scopes, Skills};
use tokio::sync::{Mutex, watch};

use super::live::LiveRegistry;

/// Interval at which the store is polled for changes by other processes, while there are watchers.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Time to collect changes before reading them.
const BATCH_DELAY: Duration = Duration::from_millis(50);

/// Snapshot of the registered skills and prompts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegistryContents {
    /// The skills, without their texts.
    pub skills: Arc<Skills>,
    /// The prompts.
    pub prompts: Arc<Prompts>,
    /// Revisions of skills and prompts; a skill's text may change without changing its summary.
    revisions: (Option<u64>, Option<u64>),
    /// Scopes in which they are stored.
    scopes: Scopes,
}

/// Reads the registry, and watches it once there is a watcher.
pub(super) struct RegistryWatcher {
    live: Arc<LiveRegistry>,
    latest: watch::Sender<Arc<RegistryContents>>,
    reading: Mutex<()>,
    started: OnceLock<()>,
}

impl RegistryWatcher {
    pub(super) fn new(live: Arc<LiveRegistry>) -> Self {
        let latest = watch::channel(Arc::default()).0;
        Self { live, latest, reading: Mutex::default(), started: OnceLock::new() }
    }

    /// Subscribes to the contents, which are updated as long as the registry is in use.
    pub(super) fn follow(self: &Arc<Self>) -> watch::Receiver<Arc<RegistryContents>> {
        self.started.get_or_init(|| {
            tokio::spawn(watch_changes(Arc::downgrade(self), self.live.registry().changes()));
        });
        self.latest.subscribe()
    }

    /// Reads the contents if they or the config changed, and notifies the subscribers.
    pub(super) async fn refresh(&self) -> Result<Arc<RegistryContents>, BusError> {
        let _guard = self.reading.lock().await;
        // If the config cannot be read now, the last known config still applies.
        let _ = self.live.refresh().await;
        let contents = match self.live.current() {
            Some(registry) => self.read(&registry).await?,
            None => Arc::default(),
        };
        self.latest.send_if_modified(|latest| {
            let changed = **latest != *contents;
            *latest = Arc::clone(&contents);
            changed
        });
        Ok(contents)
    }

    async fn read(&self, registry: &Registry) -> Result<Arc<RegistryContents>, BusError> {
        let scopes = registry.options().scopes.clone();
        let bus = registry.bus();
        // Read the revisions first: a change in between is read again, never missed.
        let revisions = (bus.revision(&scopes.skills).await, bus.revision(&scopes.prompts).await);
        let latest = Arc::clone(&self.latest.borrow());
        if latest.revisions == revisions && latest.scopes == scopes && revisions.0.is_some() {
            return Ok(latest);
        }
        let (skills, prompts) = (registry.skills().await?, registry.prompts().await?);
        Ok(Arc::new(RegistryContents { skills, prompts, revisions, scopes }))
    }
}

/// Applies changes by this process immediately, and polls for changes by other processes.
async fn watch_changes(watcher: Weak<RegistryWatcher>, mut changes: watch::Receiver<u64>) {
    loop {
        let Some(current) = watcher.upgrade() else { return };
        // Contents that cannot be read now are read in the next round.
        let _ = current.refresh().await;
        drop(current);
        // The sender is part of the registry, so an error means that the registry was dropped.
        if let Ok(Err(_)) = tokio::time::timeout(POLL_INTERVAL, changes.changed()).await {
            return;
        }
        tokio::time::sleep(BATCH_DELAY).await;
    }
}
