//! Change notifications for every interested client.
//!
//! A notification only signals that something changed, so pending notifications of the same kind are merged. That
//! bounds the queue, and a client that does not read blocks no one else.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Maximum number of resources that one client may watch.
pub(super) const MAX_WATCHED: usize = 1024;

/// Kind of change.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Notice {
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
pub struct Notices(Arc<Mutex<Members>>);

#[derive(Default)]
struct Members {
    next: u64,
    mailboxes: HashMap<u64, Arc<Mailbox>>,
}

/// Changes that one client is interested in.
#[derive(Debug, Clone, Default)]
pub(super) struct Wanted {
    pub(super) kinds: BTreeSet<Notice>,
    pub(super) uris: HashSet<String>,
}

#[derive(Default)]
struct Mailbox {
    wanted: Mutex<Wanted>,
    waiting: Mutex<BTreeSet<Notice>>,
    bell: Notify,
}

/// Subscription of one client, until it is dropped.
pub(super) struct Membership {
    id: u64,
    mailbox: Arc<Mailbox>,
    notices: Notices,
}

impl Notices {
    /// Notifies every interested client.
    pub fn publish(&self, notice: &Notice) {
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
                lock(&mailbox.waiting).extend(changed.into_iter().map(Notice::Updated));
                mailbox.bell.notify_one();
            }
        }
    }

    pub(super) fn join(&self, wanted: Wanted) -> Membership {
        let mailbox = Arc::new(Mailbox { wanted: Mutex::new(wanted), ..Mailbox::default() });
        let mut members = lock(&self.0);
        let id = members.next;
        members.next += 1;
        members.mailboxes.insert(id, Arc::clone(&mailbox));
        Membership { id, mailbox, notices: self.clone() }
    }
}

impl Wanted {
    /// Returns an interest in all lists, but in no single resource.
    pub(super) fn lists() -> Self {
        let kinds = BTreeSet::from([Notice::Tools, Notice::Prompts, Notice::Resources]);
        Self { kinds, uris: HashSet::new() }
    }

    fn wants(&self, notice: &Notice) -> bool {
        match notice {
            Notice::Updated(uri) => self.uris.contains(uri),
            kind => self.kinds.contains(kind),
        }
    }
}

impl Membership {
    /// Waits for the next change.
    pub(super) async fn next(&self) -> Notice {
        loop {
            if let Some(notice) = lock(&self.mailbox.waiting).pop_first() {
                return notice;
            }
            self.mailbox.bell.notified().await;
        }
    }

    /// Watches a resource. Returns `false` if the limit is reached.
    pub(super) fn watch(&self, uri: String) -> bool {
        let mut wanted = lock(&self.mailbox.wanted);
        if wanted.uris.len() >= MAX_WATCHED && !wanted.uris.contains(&uri) {
            return false;
        }
        wanted.uris.insert(uri);
        true
    }

    pub(super) fn unwatch(&self, uri: &str) {
        lock(&self.mailbox.wanted).uris.remove(uri);
        lock(&self.mailbox.waiting).remove(&Notice::Updated(uri.to_owned()));
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        lock(&self.notices.0).mailboxes.remove(&self.id);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::{Notice, Notices, Wanted};

    #[tokio::test]
    async fn repeated_changes_reach_subscribers_once() {
        let notices = Notices::default();
        let lists = notices.join(Wanted::lists());
        let one = notices.join(Wanted::default());
        assert!(one.watch("a:1".to_owned()));
        for _ in 0..3 {
            notices.publish(&Notice::Tools);
            notices.publish(&Notice::Updated("a:1".to_owned()));
            notices.publish(&Notice::Updated("a:2".to_owned()));
        }
        notices.publish(&Notice::Resources);
        assert_eq!([lists.next().await, lists.next().await], [Notice::Tools, Notice::Resources]);
        assert_eq!(one.next().await, Notice::Updated("a:1".to_owned()));
        assert!(super::lock(&lists.mailbox.waiting).is_empty());
        assert!(super::lock(&one.mailbox.waiting).is_empty());
    }

    #[tokio::test]
    async fn related_resources_are_reported_together() {
        let notices = Notices::default();
        let one = notices.join(Wanted::default());
        for uri in ["a:1", "a:1?page=2", "b:1"] {
            assert!(one.watch(uri.to_owned()));
        }
        for _ in 0..2 {
            notices.publish_updates(|uri| uri.starts_with("a:1"));
        }
        let changes = [one.next().await, one.next().await];
        assert_eq!(changes, ["a:1", "a:1?page=2"].map(|uri| Notice::Updated(uri.to_owned())));
        assert!(super::lock(&one.mailbox.waiting).is_empty());
    }

    #[test]
    fn dropped_subscription_is_removed() {
        let notices = Notices::default();
        drop(notices.join(Wanted::lists()));
        assert!(super::lock(&notices.0).mailboxes.is_empty());
    }
}
