//! Change notifications for every interested client.
//!
//! A notification only signals that something changed, so pending notifications of the same kind are merged. That
//! bounds the queue, and a client that does not read blocks no one else.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Maximum number of resources that one client may watch.
pub(super) const MAX_WATCHED: usize = 1024;
/// Maximum length of the URI of a watched resource in bytes.
pub(super) const MAX_URI: usize = 2048;

/// Kind of change.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeNotification {
    /// The list of tools changed.
    Tools,
    /// The list of prompts changed.
    Prompts,
    /// The list of resources changed.
    Resources,
    /// The content of the resource with this URI changed.
    Updated(String),
}

/// Forwards change notifications to the clients of one process.
#[derive(Clone, Default)]
pub struct Notifier(Arc<Mutex<Members>>);

#[derive(Default)]
struct Members {
    next: u64,
    mailboxes: HashMap<u64, Arc<Mailbox>>,
}

/// Changes that one client is interested in.
#[derive(Debug, Clone, Default)]
pub(super) struct Interest {
    pub(super) kinds: BTreeSet<ChangeNotification>,
    pub(super) uris: HashSet<String>,
}

#[derive(Default)]
struct Mailbox {
    wanted: Mutex<Interest>,
    waiting: Mutex<BTreeSet<ChangeNotification>>,
    bell: Notify,
}

/// Subscription of one client, until it is dropped.
pub(super) struct Subscription {
    id: u64,
    mailbox: Arc<Mailbox>,
    notices: Notifier,
}

impl Notifier {
    /// Notifies every interested client.
    pub fn publish(&self, notice: &ChangeNotification) {
        let mailboxes: Vec<_> = lock(&self.0).mailboxes.values().cloned().collect();
        for mailbox in mailboxes {
            if lock(&mailbox.wanted).wants(notice) {
                lock(&mailbox.waiting).insert(notice.clone());
                mailbox.bell.notify_one();
            }
        }
    }

    /// Notifies every client of the resources it watches for which `is_changed` returns `true`.
    pub fn publish_updates(&self, is_changed: impl Fn(&str) -> bool) {
        let mailboxes: Vec<_> = lock(&self.0).mailboxes.values().cloned().collect();
        for mailbox in mailboxes {
            let watched = lock(&mailbox.wanted);
            let changed: Vec<_> = watched.uris.iter().filter(|uri| is_changed(uri)).cloned().collect();
            drop(watched);
            if !changed.is_empty() {
                lock(&mailbox.waiting).extend(changed.into_iter().map(ChangeNotification::Updated));
                mailbox.bell.notify_one();
            }
        }
    }

    pub(super) fn join(&self, wanted: Interest) -> Subscription {
        let mailbox = Arc::new(Mailbox { wanted: Mutex::new(wanted), ..Mailbox::default() });
        let mut members = lock(&self.0);
        let id = members.next;
        members.next += 1;
        members.mailboxes.insert(id, Arc::clone(&mailbox));
        Subscription { id, mailbox, notices: self.clone() }
    }
}

impl Interest {
    /// Returns an interest in all lists, but in no single resource.
    pub(super) fn lists() -> Self {
        let kinds = BTreeSet::from([
            ChangeNotification::Tools,
            ChangeNotification::Prompts,
            ChangeNotification::Resources,
        ]);
        Self { kinds, uris: HashSet::new() }
    }

    fn wants(&self, notice: &ChangeNotification) -> bool {
        match notice {
            ChangeNotification::Updated(uri) => self.uris.contains(uri),
            kind => self.kinds.contains(kind),
        }
    }
}

impl Subscription {
    /// Waits for the next change.
    pub(super) async fn next(&self) -> ChangeNotification {
        loop {
            self.wait().await;
            if let Some(notice) = self.take() {
                return notice;
            }
        }
    }

    /// Waits until there is a change to take.
    pub(super) async fn wait(&self) {
        while lock(&self.mailbox.waiting).is_empty() {
            self.mailbox.bell.notified().await;
        }
    }

    /// Returns the next change, if there is one.
    pub(super) fn take(&self) -> Option<ChangeNotification> {
        lock(&self.mailbox.waiting).pop_first()
    }

    /// Watches a resource. Returns `false` if a limit is reached.
    pub(super) fn watch(&self, uri: String) -> bool {
        let mut wanted = lock(&self.mailbox.wanted);
        let is_full = wanted.uris.len() >= MAX_WATCHED && !wanted.uris.contains(&uri);
        if is_full || uri.len() > MAX_URI {
            return false;
        }
        wanted.uris.insert(uri);
        true
    }

    pub(super) fn unwatch(&self, uri: &str) {
        lock(&self.mailbox.wanted).uris.remove(uri);
        lock(&self.mailbox.waiting).remove(&ChangeNotification::Updated(uri.to_owned()));
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        lock(&self.notices.0).mailboxes.remove(&self.id);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::{ChangeNotification, Interest, Notifier};

    #[tokio::test]
    async fn repeated_changes_reach_subscribers_once() {
        let notices = Notifier::default();
        let lists = notices.join(Interest::lists());
        let one = notices.join(Interest::default());
        assert!(one.watch("a:1".to_owned()));
        for _ in 0..3 {
            notices.publish(&ChangeNotification::Tools);
            notices.publish(&ChangeNotification::Updated("a:1".to_owned()));
            notices.publish(&ChangeNotification::Updated("a:2".to_owned()));
        }
        notices.publish(&ChangeNotification::Resources);
        assert_eq!(
            [lists.next().await, lists.next().await],
            [ChangeNotification::Tools, ChangeNotification::Resources]
        );
        assert_eq!(one.next().await, ChangeNotification::Updated("a:1".to_owned()));
        assert!(super::lock(&lists.mailbox.waiting).is_empty());
        assert!(super::lock(&one.mailbox.waiting).is_empty());
    }

    #[tokio::test]
    async fn related_resources_are_reported_together() {
        let notices = Notifier::default();
        let one = notices.join(Interest::default());
        for uri in ["a:1", "a:1?page=2", "b:1"] {
            assert!(one.watch(uri.to_owned()));
        }
        for _ in 0..2 {
            notices.publish_updates(|uri| uri.starts_with("a:1"));
        }
        let changes = [one.next().await, one.next().await];
        assert_eq!(changes, ["a:1", "a:1?page=2"].map(|uri| ChangeNotification::Updated(uri.to_owned())));
        assert!(super::lock(&one.mailbox.waiting).is_empty());
    }

    #[test]
    fn dropped_subscription_is_removed() {
        let notices = Notifier::default();
        drop(notices.join(Interest::lists()));
        assert!(super::lock(&notices.0).mailboxes.is_empty());
    }
}
