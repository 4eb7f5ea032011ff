//! Counts of requested failures.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use meerkat_core::Message;

/// Maximum number of requests; beyond it, all counts are reset.
const MAX_REQUESTS: usize = 1024;

/// Counts failures by request, until the request succeeds.
#[derive(Debug, Default)]
pub(super) struct FailureCounter(Mutex<HashMap<u64, u32>>);

impl FailureCounter {
    /// Returns the key of a request: the same for a retry, different for another step or session.
    pub(super) fn key(messages: &[Arc<Message>]) -> u64 {
        let mut hasher = DefaultHasher::new();
        messages.len().hash(&mut hasher);
        let user = messages.iter().rev().find_map(|message| match &**message {
            Message::User { content, created_at } => Some((content, created_at)),
            _ => None,
        });
        if let Some((content, created_at)) = user {
            created_at.hash(&mut hasher);
            content.to_text().hash(&mut hasher);
        }
        hasher.finish()
    }

    pub(super) fn count(&self, key: u64) -> u32 {
        self.lock().get(&key).copied().unwrap_or(0)
    }

    pub(super) fn add(&self, key: u64) {
        let mut counts = self.lock();
        if counts.len() >= MAX_REQUESTS && !counts.contains_key(&key) {
            counts.clear();
        }
        let count = counts.entry(key).or_default();
        *count = count.saturating_add(1);
    }

    pub(super) fn forget(&self, key: u64) {
        self.lock().remove(&key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
