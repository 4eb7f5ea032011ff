//! Applies changes that were checked. Nothing here can fail.

use super::State;
use crate::{Change, Committed, ConfigRow};

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
                self.sessions.create(new);
            }
            Change::TakeLease { session, run, expires_at } => {
                self.sessions.change(session, |s| committed.fence = Some(s.take_lease(run, expires_at)));
            }
            Change::RenewLeases { sessions, expires_at } => {
                for session in sessions {
                    self.sessions.change(session, |s| s.renew_lease(expires_at));
                }
            }
            Change::ReleaseLease(session) => self.sessions.change(session, |s| s.row.lease = None),
            Change::RequestInterrupt(session) => self.sessions.change(session, |s| s.interrupt = true),
            Change::Append { session, messages, at } => self.sessions.append(session, messages, at),
            Change::AddUsage { session, at, usage, cost } => {
                self.sessions.change(session, |s| s.add_usage(at, usage, cost));
            }
            Change::OpenCalls { session, calls } => self.sessions.change(session, |s| s.open_calls(calls)),
            Change::PutCall { session, call } => {
                self.sessions.change(session, |s| s.change_call(&call.id, |found| found.call = call.call))
            }
            Change::CompleteCall { session, call, result } => {
                self.sessions.change(session, |s| s.change_call(&call, |found| found.result = Some(result)))
            }
            Change::CloseCalls(session) => self.sessions.change(session, |s| s.calls.clear()),
            Change::PutSettings { session, settings } => {
                self.sessions.change(session, |s| s.row.settings = settings)
            }
            Change::PutProgress { session, progress } => {
                self.sessions.change(session, |s| s.row.progress = progress)
            }
            Change::IndexMemories { session, memories, at } => self.sessions.change(session, |s| {
                for new in memories {
                    s.memories.entry(new.seq).or_insert((at, new.text));
                }
            }),
            Change::Archive { session, at } => self.sessions.change(session, |s| {
                s.row.archived_at.get_or_insert(at);
            }),
            Change::DeleteSession(session) => {
                self.sessions.delete(session);
            }
            Change::PutConfig(document) => {
                let generation = self.generation() + 1;
                self.config = Some(ConfigRow { generation, document });
                committed.generation = Some(generation);
            }
            Change::PutTask { session, id, task } => self.sessions.change(session, |s| s.put_task(id, task)),
            Change::PutBlob(blob) => {
                self.blobs.entry(blob.id.clone()).or_insert(blob);
            }
            Change::PutState { scope, key, value } => {
                committed.replaced = self.scopes.put(scope, key, value);
            }
            Change::DeleteState { scope, key } => {
                committed.replaced = self.scopes.delete(&scope, &key);
            }
        }
    }
}
