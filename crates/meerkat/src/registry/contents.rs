//! What is registered, read anew whenever it has changed.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use meerkat_registry::{BusError, Prompts, Registry, Scopes, Skills};
use tokio::sync::{Mutex, watch};

use super::live::LiveRegistry;

/// How often the store is asked whether another process has changed something, while somebody wants to know.
const EVERY: Duration = Duration::from_millis(500);

/// How long changes are gathered before they are read.
const GATHER: Duration = Duration::from_millis(50);

/// What is registered, as of one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    /// The skills, without their texts.
    pub skills: Arc<Skills>,
    /// The prompts.
    pub prompts: Arc<Prompts>,
    /// How often skills and prompts were changed; a skill may have changed where nothing else says so.
    revisions: (Option<u64>, Option<u64>),
    /// Where they are stored.
    scopes: Scopes,
}

/// Reads what is registered, and follows it once somebody wants to know.
pub(super) struct Following {
    live: Arc<LiveRegistry>,
    latest: watch::Sender<Arc<Contents>>,
    reading: Mutex<()>,
    started: OnceLock<()>,
}

impl Following {
    pub(super) fn new(live: Arc<LiveRegistry>) -> Self {
        let latest = watch::channel(Arc::default()).0;
        Self { live, latest, reading: Mutex::default(), started: OnceLock::new() }
    }

    /// Follows what is registered for as long as somebody listens or uses the registry.
    pub(super) fn follow(self: &Arc<Self>) -> watch::Receiver<Arc<Contents>> {
        self.started.get_or_init(|| {
            tokio::spawn(keep_up(Arc::downgrade(self), self.live.registry().changes()));
        });
        self.latest.subscribe()
    }

    /// Reads what is registered if it or the config has changed; notifies the followers.
    pub(super) async fn catch_up(&self) -> Result<Arc<Contents>, BusError> {
        let _one = self.reading.lock().await;
        // If the config cannot be read now, the last one that could still counts.
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

    async fn read(&self, registry: &Registry) -> Result<Arc<Contents>, BusError> {
        let scopes = registry.options().scopes.clone();
        let bus = registry.bus();
        // They are asked for first: what changes in between is read again, never missed.
        let revisions = (bus.revision(&scopes.skills).await, bus.revision(&scopes.prompts).await);
        let known = Arc::clone(&self.latest.borrow());
        if known.revisions == revisions && known.scopes == scopes && revisions.0.is_some() {
            return Ok(known);
        }
        let (skills, prompts) = (registry.skills().await?, registry.prompts().await?);
        Ok(Arc::new(Contents { skills, prompts, revisions, scopes }))
    }
}

/// Looks for changes of this process at once, and for those of others from time to time.
async fn keep_up(following: Weak<Following>, mut changes: watch::Receiver<u64>) {
    loop {
        let Some(current) = following.upgrade() else { return };
        // What cannot be read now is read the next time.
        let _ = current.catch_up().await;
        drop(current);
        // The sender is a part of what is followed, which is gone then.
        if let Ok(Err(_)) = tokio::time::timeout(EVERY, changes.changed()).await {
            return;
        }
        tokio::time::sleep(GATHER).await;
    }
}
