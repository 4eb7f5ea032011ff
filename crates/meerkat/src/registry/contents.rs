//! What is registered, read anew whenever it has changed.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use meerkat_registry::{BusError, Prompts, Registry, Skills};
use tokio::sync::{Mutex, watch};

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
}

/// Reads what is registered, and follows it once somebody wants to know.
pub(super) struct Following {
    registry: Registry,
    latest: watch::Sender<Arc<Contents>>,
    reading: Mutex<()>,
    started: OnceLock<()>,
}

impl Following {
    pub(super) fn new(registry: Registry) -> Self {
        let latest = watch::channel(Arc::default()).0;
        Self { registry, latest, reading: Mutex::default(), started: OnceLock::new() }
    }

    /// Follows what is registered for as long as somebody listens or uses the registry.
    pub(super) fn follow(self: &Arc<Self>) -> watch::Receiver<Arc<Contents>> {
        self.started.get_or_init(|| {
            tokio::spawn(keep_up(Arc::downgrade(self), self.registry.changes()));
        });
        self.latest.subscribe()
    }

    /// Reads what is registered if it has changed; tells those who follow it.
    pub(super) async fn catch_up(&self) -> Result<Arc<Contents>, BusError> {
        let _one = self.reading.lock().await;
        let scopes = &self.registry.options().scopes;
        let bus = self.registry.bus();
        // They are asked for first: what changes in between is read again, never missed.
        let revisions = (bus.revision(&scopes.skills).await, bus.revision(&scopes.prompts).await);
        let known = Arc::clone(&self.latest.borrow());
        if known.revisions == revisions && revisions.0.is_some() {
            return Ok(known);
        }
        let (skills, prompts) = (self.registry.skills().await?, self.registry.prompts().await?);
        let contents = Arc::new(Contents { skills, prompts, revisions });
        self.latest.send_if_modified(|latest| {
            let changed = **latest != *contents;
            *latest = Arc::clone(&contents);
            changed
        });
        Ok(contents)
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
