//! Who is told when something is registered or removed. They are known as long as the process lives.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The subscriptions, by the id of their trigger.
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

    /// Takes a subscription away; there may be none.
    pub(crate) fn remove(&self, trigger: &str) {
        self.all().remove(trigger);
    }

    /// Lists the functions to call; one that is subscribed twice is called twice.
    pub(crate) fn of(&self, trigger_type: &str) -> Vec<String> {
        let all = self.all();
        let of_type = all.values().filter(|subscription| subscription.trigger_type == trigger_type);
        of_type.map(|subscription| subscription.function.clone()).collect()
    }

    /// A map is whole whatever panicked while it was locked.
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Subscription>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
