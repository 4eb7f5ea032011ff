//! Subscribers to registrations and removals. They are stored in memory only.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Subscriptions by trigger id.
#[derive(Debug, Default)]
pub(crate) struct Subscribers(Mutex<BTreeMap<String, Subscription>>);

#[derive(Debug)]
struct Subscription {
    trigger_type: String,
    function: String,
}

impl Subscribers {
    /// Adds a subscription; one with the same id is replaced.
    pub(crate) fn add(&self, trigger: &str, trigger_type: &str, function: &str) {
        let subscription =
            Subscription { trigger_type: trigger_type.to_owned(), function: function.to_owned() };
        self.all().insert(trigger.to_owned(), subscription);
    }

    /// Removes a subscription, if it exists.
    pub(crate) fn remove(&self, trigger: &str) {
        self.all().remove(trigger);
    }

    /// Returns the functions to call; a function with two subscriptions is called twice.
    pub(crate) fn functions_for(&self, trigger_type: &str) -> Vec<String> {
        let all = self.all();
        let of_type = all.values().filter(|subscription| subscription.trigger_type == trigger_type);
        of_type.map(|subscription| subscription.function.clone()).collect()
    }

    /// Locks the subscriptions. The map is valid even if a thread panicked while holding the lock.
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Subscription>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
