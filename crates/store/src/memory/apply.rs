//! Applies changes that were checked. Nothing here can fail.

use std::collections::BTreeMap;

use meerkat_core::{RunId, SessionId, Timestamp};

use super::{Lease, Session, State};
use crate::{CallRow, Change, Committed, ConfigRow, NewCall, NewSession};

impl State {
    pub(super) fn apply(&mut self, changes: Vec<Change>) -> Committed {
        let mut committed = Committed::default();
        for change in changes {
            self.apply_one(change, &mut committed);
        }
        committed
    }

    fn apply_one(&mut self, change: Change, committed: &mut Committed) {
        match change {
            Change::CreateSession(new) => {
                self.sessions.insert(new.id, Session::new(new));
            }
            Change::TakeLease { session, run, expires_at } => {
                self.change(session, |s| committed.fence = Some(s.take_lease(run, expires_at)));
            }
            Change::RenewLeases { sessions, expires_at } => {
                for session in sessions {
                    self.change(session, |s| s.renew_lease(expires_at));
                }
            }
            Change::ReleaseLease(session) => self.change(session, |s| s.lease = None),
            Change::RequestInterrupt(session) => self.change(session, |s| {
                if let Some(lease) = &mut s.lease {
                    lease.interrupt = true;
                }
            }),
            Change::Append { session, messages, at } => self.change(session, |s| {
                s.messages.extend(messages);
                s.updated_at = at;
            }),
            Change::OpenCalls { session, calls } => self.change(session, |s| s.open_calls(calls)),
            Change::PutCall { session, call } => self.change(session, |s| s.put_call(call)),
            Change::CompleteCall { session, call, result } => {
                self.change(session, |s| s.settle_call(&call, result))
            }
            Change::CloseCalls(session) => self.change(session, |s| s.calls.clear()),
            Change::PutSettings { session, settings } => self.change(session, |s| s.settings = settings),
            Change::PutProgress { session, progress } => self.change(session, |s| s.progress = progress),
            Change::IndexMemories { session, memories, at } => self.change(session, |s| {
                for new in memories {
                    s.memories.entry(new.seq).or_insert((at, new.text));
                }
            }),
            Change::Archive { session, at } => self.change(session, |s| {
                s.archived_at.get_or_insert(at);
            }),
            Change::DeleteSession(session) => {
                self.sessions.remove(&session);
            }
            Change::PutConfig(document) => {
                let generation = self.generation() + 1;
                self.config = Some(ConfigRow { generation, document });
                committed.generation = Some(generation);
            }
            Change::PutTask { session, id, task } => self.change(session, |s| s.put_task(id, task)),
            Change::PutBlob(blob) => {
                self.blobs.entry(blob.id.clone()).or_insert(blob);
            }
            Change::PutState { scope, key, value } => {
                committed.replaced = self.scopes.entry(scope).or_default().put(key, value);
            }
            Change::DeleteState { scope, key } => {
                committed.replaced = self.scopes.get_mut(&scope).and_then(|scope| scope.delete(&key));
            }
        }
    }

    fn change(&mut self, id: SessionId, change: impl FnOnce(&mut Session)) {
        if let Some(session) = self.sessions.get_mut(&id) {
            change(session);
        }
    }
}

impl Session {
    fn new(new: NewSession) -> Self {
        Self {
            created_at: new.created_at,
            updated_at: new.created_at,
            archived_at: None,
            labels: new.labels,
            settings: new.settings,
            progress: new.progress,
            messages: Vec::new(),
            calls: Vec::new(),
            memories: BTreeMap::new(),
            tasks: Vec::new(),
            fence: 0,
            lease: None,
        }
    }

    fn take_lease(&mut self, run: RunId, expires_at: Timestamp) -> u64 {
        self.fence += 1;
        self.lease = Some(Lease { run, expires_at, interrupt: false });
        self.fence
    }

    fn renew_lease(&mut self, expires_at: Timestamp) {
        if let Some(lease) = &mut self.lease {
            lease.expires_at = lease.expires_at.max(expires_at);
        }
    }

    fn open_calls(&mut self, calls: Vec<NewCall>) {
        self.calls.extend(calls.into_iter().map(|new| CallRow { id: new.id, call: new.call, result: None }));
    }

    fn put_call(&mut self, new: NewCall) {
        if let Some(call) = self.calls.iter_mut().find(|call| call.id == new.id) {
            call.call = new.call;
        }
    }

    fn put_task(&mut self, id: String, task: Vec<u8>) {
        match self.tasks.iter_mut().find(|(found, _)| *found == id) {
            Some((_, found)) => *found = task,
            None => self.tasks.push((id, task)),
        }
    }

    fn settle_call(&mut self, id: &str, result: Vec<u8>) {
        if let Some(call) = self.calls.iter_mut().find(|call| call.id == id) {
            call.result = Some(result);
        }
    }
}
