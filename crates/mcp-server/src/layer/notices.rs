//! What changed, told to every client that wants to know.
//!
//! A notice says only that something changed, so notices of a kind that wait for a slow client are one. That
//! bounds what waits, and nobody waits for a client that does not read.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// How many resources one client may watch.
pub(super) const MAX_WATCHED: usize = 1024;

/// Something changed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Notice {
    /// There are other tools.
    Tools,
    /// There are other prompts.
    Prompts,
    /// There are other resources.
    Resources,
    /// The resource with this URI reads differently.
    Updated(String),
}

/// Passes notices on to the clients of one process.
#[derive(Clone, Default)]
pub struct Notices(Arc<Mutex<Members>>);

#[derive(Default)]
struct Members {
    next: u64,
    mailboxes: HashMap<u64, Arc<Mailbox>>,
}

/// What one client wants to know.
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

/// One client's place among the members, until it is dropped.
pub(super) struct Membership {
    id: u64,
    mailbox: Arc<Mailbox>,
    notices: Notices,
}

impl Notices {
    /// Tells every client that wants to know it.
    pub fn publish(&self, notice: &Notice) {
        let mailboxes: Vec<_> = lock(&self.0).mailboxes.values().cloned().collect();
        for mailbox in mailboxes {
            if lock(&mailbox.wanted).wants(notice) {
                lock(&mailbox.waiting).insert(notice.clone());
                mailbox.bell.notify_one();
            }
        }
    }

    /// Tells every client of those resources that it watches and that this holds for.
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
    /// Everything but single resources.
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
    /// Waits for the next notice.
    pub(super) async fn next(&self) -> Notice {
        loop {
            if let Some(notice) = lock(&self.mailbox.waiting).pop_first() {
                return notice;
            }
            self.mailbox.bell.notified().await;
        }
    }

    /// Wants to know of a resource; returns false when it is one too many.
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
    async fn a_notice_reaches_those_who_want_it_and_only_once() {
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
    async fn resources_that_belong_together_are_told_together() {
        let notices = Notices::default();
        let one = notices.join(Wanted::default());
        for uri in ["a:1", "a:1?page=2", "b:1"] {
            assert!(one.watch(uri.to_owned()));
        }
        for _ in 0..2 {
            notices.publish_updates(|uri| uri.starts_with("a:1"));
        }
        let told = [one.next().await, one.next().await];
        assert_eq!(told, ["a:1", "a:1?page=2"].map(|uri| Notice::Updated(uri.to_owned())));
        assert!(super::lock(&one.mailbox.waiting).is_empty());
    }

    #[test]
    fn who_left_is_told_nothing() {
        let notices = Notices::default();
        drop(notices.join(Wanted::lists()));
        assert!(super::lock(&notices.0).mailboxes.is_empty());
    }
}
