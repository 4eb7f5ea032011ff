//! Sessions, and everything that belongs to one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use meerkat_core::{RunId, SessionId, Timestamp, Usage, Usd};

use super::{to_u64, to_usize};
use crate::rows::{day_of, start_of_day};
use crate::{
    ArchivedFilter, CallRow, LeaseRow, MessageRow, NewCall, NewSession, SessionQuery, SessionRow, UsageRow,
};

/// All sessions, by id.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    sessions: HashMap<SessionId, Session>,
    /// Number of changes so far.
    changes: u64,
}

impl Sessions {
    pub(super) fn get(&self, id: SessionId) -> Option<&Session> {
        self.sessions.get(&id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Session> {
        self.sessions.values()
    }

    pub(super) fn list(&self, query: &SessionQuery) -> Vec<SessionRow> {
        let mut found: Vec<_> = self.iter().filter(|session| matches(&session.row, query)).collect();
        found.sort_unstable_by_key(|session| Reverse(session.changed));
        let limit = query.limit.map_or(usize::MAX, to_usize);
        let page = found.into_iter().skip(to_usize(query.offset)).take(limit);
        page.map(|session| session.row.clone()).collect()
    }

    pub(super) fn interrupts(&self) -> Vec<SessionId> {
        let flagged = self.iter().filter(|session| session.interrupt && session.row.lease.is_some());
        let mut ids: Vec<_> = flagged.map(|session| session.row.id).collect();
        ids.sort_unstable();
        ids
    }

    pub(super) fn create(&mut self, new: NewSession) {
        self.changes += 1;
        self.sessions.insert(new.id, Session::new(new, self.changes));
    }

    pub(super) fn append(&mut self, id: SessionId, messages: Vec<Vec<u8>>, at: Timestamp) {
        self.changes += 1;
        let changed = self.changes;
        self.change(id, |session| {
            session.changed = changed;
            session.append(messages, at);
        });
    }

    pub(super) fn usage(&self) -> Vec<UsageRow> {
        let days = |session: &Session| {
            let row = |(day, (usage, cost)): (&i64, &(Usage, Usd))| UsageRow {
                session: session.row.id,
                day: start_of_day(*day),
                usage: *usage,
                cost: *cost,
            };
            session.usage.iter().map(row).collect::<Vec<_>>()
        };
        let mut rows: Vec<_> = self.iter().flat_map(days).collect();
        rows.sort_unstable_by_key(|row| (row.session, row.day));
        rows
    }

    pub(super) fn change(&mut self, id: SessionId, change: impl FnOnce(&mut Session)) {
        if let Some(session) = self.sessions.get_mut(&id) {
            change(session);
        }
    }

    pub(super) fn delete(&mut self, id: SessionId) {
        self.sessions.remove(&id);
    }
}

fn matches(row: &SessionRow, query: &SessionQuery) -> bool {
    (row.archived_at.is_none() || query.archived == ArchivedFilter::Included)
        && query.labels.iter().all(|(name, value)| row.labels.get(name) == Some(value))
}

#[derive(Debug)]
pub(super) struct Session {
    // The fence outlives the lease, because the next lease must have a greater number.
    pub(super) row: SessionRow,
    pub(super) calls: Vec<CallRow>,
    pub(super) memories: BTreeMap<u64, (Timestamp, String)>,
    pub(super) tasks: Vec<(String, Vec<u8>)>,
    /// Whether the holder of the lease should interrupt the run.
    pub(super) interrupt: bool,
    messages: Vec<Vec<u8>>,
    /// Usage by day.
    usage: BTreeMap<i64, (Usage, Usd)>,
    /// Position of the last change among all changes.
    changed: u64,
}

impl Session {
    fn new(new: NewSession, changed: u64) -> Self {
        let row = SessionRow {
            id: new.id,
            created_at: new.created_at,
            updated_at: new.created_at,
            archived_at: None,
            message_count: 0,
            labels: new.labels,
            settings: new.settings,
            progress: new.progress,
            fence: 0,
            lease: None,
        };
        Self {
            row,
            calls: Vec::new(),
            memories: BTreeMap::new(),
            tasks: Vec::new(),
            interrupt: false,
            messages: Vec::new(),
            usage: BTreeMap::new(),
            changed,
        }
    }

    pub(super) fn take_lease(&mut self, run: RunId, expires_at: Timestamp) -> u64 {
        self.row.fence += 1;
        self.row.lease = Some(LeaseRow { run, fence: self.row.fence, expires_at });
        self.interrupt = false;
        self.row.fence
    }

    pub(super) fn renew_lease(&mut self, expires_at: Timestamp) {
        if let Some(lease) = &mut self.row.lease {
            lease.expires_at = lease.expires_at.max(expires_at);
        }
    }

    pub(super) fn is_held(&self, now: Timestamp) -> bool {
        self.row.lease.as_ref().is_some_and(|lease| lease.expires_at > now)
    }

    pub(super) fn add_usage(&mut self, at: Timestamp, usage: Usage, cost: Usd) {
        let day = self.usage.entry(day_of(at)).or_default();
        day.0 += usage;
        day.1 += cost;
    }

    fn append(&mut self, messages: Vec<Vec<u8>>, at: Timestamp) {
        self.messages.extend(messages);
        self.row.message_count = to_u64(self.messages.len());
        self.row.updated_at = at;
    }

    pub(super) fn page(&self, from: u64, limit: u64) -> Vec<MessageRow> {
        let rest = self.messages.iter().enumerate().skip(to_usize(from)).take(to_usize(limit));
        rest.map(|(seq, message)| MessageRow { seq: to_u64(seq), message: message.clone() }).collect()
    }

    pub(super) fn open_calls(&mut self, calls: Vec<NewCall>) {
        self.calls.extend(calls.into_iter().map(|new| CallRow { id: new.id, call: new.call, result: None }));
    }

    pub(super) fn change_call(&mut self, id: &str, change: impl FnOnce(&mut CallRow)) {
        if let Some(call) = self.calls.iter_mut().find(|call| call.id == id) {
            change(call);
        }
    }

    pub(super) fn put_task(&mut self, id: String, task: Vec<u8>) {
        match self.tasks.iter_mut().find(|(found, _)| *found == id) {
            Some((_, found)) => *found = task,
            None => self.tasks.push((id, task)),
        }
    }
}
