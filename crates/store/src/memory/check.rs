//! Checks whether a transaction can be applied, before anything changes.

use std::collections::{HashMap, HashSet};

use meerkat_core::SessionId;

use super::{Session, State};
use crate::{Change, Error, Guard, NewCall};

impl State {
    pub(super) fn check_guards(&self, guards: &[Guard]) -> Result<(), Error> {
        guards.iter().try_for_each(|guard| self.check_guard(guard))
    }

    fn check_guard(&self, guard: &Guard) -> Result<(), Error> {
        let held = |id, now| self.sessions.get(id).is_some_and(|session| session.is_held(now));
        match guard {
            Guard::NotArchived(id) => match self.sessions.get(id) {
                None => Err(Error::SessionNotFound(*id)),
                Some(session) if session.archived_at.is_some() => Err(Error::Archived(*id)),
                Some(_) => Ok(()),
            },
            Guard::LeaseFree { session, now } if held(session, *now) => Err(Error::Busy(*session)),
            Guard::Running { session, now } if !held(session, *now) => Err(Error::NotRunning(*session)),
            Guard::HoldsLease { session, fence } => {
                let holds = |held: &Session| held.lease.is_some() && held.fence == *fence;
                if self.sessions.get(session).is_some_and(holds) {
                    Ok(())
                } else {
                    Err(Error::LeaseLost(*session))
                }
            }
            Guard::FenceUnchanged { session, fence } => {
                let current = self.sessions.get(session).map_or(0, |session| session.fence);
                if current == *fence { Ok(()) } else { Err(Error::Changed(*session)) }
            }
            Guard::Generation(expected) if *expected != self.generation() => {
                Err(Error::Generation { expected: *expected, current: self.generation() })
            }
            Guard::TasksBelow { session, limit } => {
                let count = self.sessions.get(session).map_or(0, |session| session.tasks.len());
                if count < *limit {
                    Ok(())
                } else {
                    Err(Error::TooManyTasks { session: *session, limit: *limit })
                }
            }
            Guard::State { scope, key, value } => {
                let current = self.scopes.get(scope).and_then(|scope| scope.get(key));
                if current == value.as_deref() {
                    Ok(())
                } else {
                    Err(Error::StateChanged { scope: scope.clone(), key: key.clone() })
                }
            }
            Guard::LeaseFree { .. } | Guard::Running { .. } | Guard::Generation(_) => Ok(()),
        }
    }

    pub(super) fn check_changes(&self, changes: &[Change]) -> Result<(), Error> {
        let mut outlook = PlannedState {
            state: self,
            created: HashSet::new(),
            forgotten: HashSet::new(),
            calls: HashMap::new(),
        };
        changes.iter().try_for_each(|change| outlook.admit(change))
    }
}

/// The parts of the state after the changes admitted so far that later changes depend on.
struct PlannedState<'a> {
    state: &'a State,
    created: HashSet<SessionId>,
    forgotten: HashSet<SessionId>,
    calls: HashMap<SessionId, HashSet<&'a str>>,
}

impl<'a> PlannedState<'a> {
    fn admit(&mut self, change: &'a Change) -> Result<(), Error> {
        match change {
            Change::CreateSession(new) => self.create(new.id),
            Change::TakeLease { session, .. }
            | Change::ReleaseLease(session)
            | Change::RequestInterrupt(session)
            | Change::Append { session, .. }
            | Change::PutSettings { session, .. }
            | Change::PutProgress { session, .. }
            | Change::IndexMemories { session, .. }
            | Change::PutTask { session, .. }
            | Change::Archive { session, .. } => self.require(*session),
            Change::DeleteSession(session) => self.forget(*session),
            Change::OpenCalls { session, calls } => {
                let open = self.calls(*session)?;
                match calls.iter().find(|call| !open.insert(&call.id)) {
                    Some(call) => Err(Error::CallExists { session: *session, call: call.id.clone() }),
                    None => Ok(()),
                }
            }
            Change::CompleteCall { session, call: id, .. }
            | Change::PutCall { session, call: NewCall { id, .. } } => {
                if self.calls(*session)?.contains(id.as_str()) {
                    return Ok(());
                }
                Err(Error::CallNotFound { session: *session, call: id.clone() })
            }
            Change::CloseCalls(session) => self.calls(*session).map(HashSet::clear),
            Change::RenewLeases { .. }
            | Change::PutConfig(_)
            | Change::PutBlob(_)
            | Change::PutState { .. }
            | Change::DeleteState { .. } => Ok(()),
        }
    }

    fn create(&mut self, id: SessionId) -> Result<(), Error> {
        if self.exists(id) {
            return Err(Error::SessionExists(id));
        }
        self.created.insert(id);
        Ok(())
    }

    fn forget(&mut self, id: SessionId) -> Result<(), Error> {
        self.require(id)?;
        self.created.remove(&id);
        self.forgotten.insert(id);
        self.calls.remove(&id);
        Ok(())
    }

    fn exists(&self, id: SessionId) -> bool {
        self.created.contains(&id) || (self.state.sessions.contains_key(&id) && !self.forgotten.contains(&id))
    }

    fn require(&self, id: SessionId) -> Result<(), Error> {
        if self.exists(id) { Ok(()) } else { Err(Error::SessionNotFound(id)) }
    }

    fn calls(&mut self, id: SessionId) -> Result<&mut HashSet<&'a str>, Error> {
        self.require(id)?;
        let stored = match self.state.sessions.get(&id) {
            Some(session) if !self.forgotten.contains(&id) => &session.calls[..],
            _ => &[],
        };
        Ok(self.calls.entry(id).or_insert_with(|| stored.iter().map(|call| call.id.as_str()).collect()))
    }
}
