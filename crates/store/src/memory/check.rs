//! Checks whether a transaction can be applied, before anything changes.

use std::collections::{HashMap, HashSet};

use meerkat_core::SessionId;

use super::State;
use crate::error::ensure;
use crate::{Change, Error, Guard, NewCall, Transaction};

pub(super) fn check(state: &State, transaction: &Transaction) -> Result<(), Error> {
    transaction.guards.iter().try_for_each(|guard| check_guard(state, guard))?;
    let (created, forgotten, calls) = (HashSet::new(), HashSet::new(), HashMap::new());
    let mut planned = PlannedState { state, created, forgotten, calls };
    transaction.changes.iter().try_for_each(|change| planned.admit(change))
}

fn check_guard(state: &State, guard: &Guard) -> Result<(), Error> {
    let find = |id: &SessionId| state.sessions.get(*id);
    let is_held = |id, now| find(id).is_some_and(|session| session.is_held(now));
    match guard {
        Guard::NotArchived(id) => {
            let session = find(id).ok_or(Error::SessionNotFound(*id))?;
            ensure(session.row.archived_at.is_none(), || Error::Archived(*id))
        }
        Guard::LeaseFree { session, now } => ensure(!is_held(session, *now), || Error::Busy(*session)),
        Guard::Running { session, now } => ensure(is_held(session, *now), || Error::NotRunning(*session)),
        Guard::HoldsLease { session, fence } => {
            let lease = find(session).and_then(|session| session.row.lease.as_ref());
            ensure(lease.is_some_and(|lease| lease.fence == *fence), || Error::LeaseLost(*session))
        }
        Guard::FenceUnchanged { session, fence } => {
            let current = find(session).map_or(0, |session| session.row.fence);
            ensure(current == *fence, || Error::Changed(*session))
        }
        Guard::Generation(expected) => {
            let (expected, current) = (*expected, state.generation());
            ensure(current == expected, || Error::Generation { expected, current })
        }
        Guard::TasksBelow { session: id, limit } => {
            let count = find(id).map_or(0, |session| session.tasks.len());
            ensure(count < *limit, || Error::TooManyTasks { session: *id, limit: *limit })
        }
        Guard::State { scope, key, value } => {
            let current = state.scopes.get(scope, key).map(|row| &row.value);
            let changed = || Error::StateChanged { scope: scope.clone(), key: key.clone() };
            ensure(current == value.as_ref(), changed)
        }
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
            | Change::AddUsage { session, .. }
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
                let is_open = self.calls(*session)?.contains(id.as_str());
                ensure(is_open, || Error::CallNotFound { session: *session, call: id.clone() })
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
        ensure(!self.exists(id), || Error::SessionExists(id))?;
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
        self.created.contains(&id) || (self.state.sessions.get(id).is_some() && !self.forgotten.contains(&id))
    }

    fn require(&self, id: SessionId) -> Result<(), Error> {
        ensure(self.exists(id), || Error::SessionNotFound(id))
    }

    fn calls(&mut self, id: SessionId) -> Result<&mut HashSet<&'a str>, Error> {
        self.require(id)?;
        let stored = match self.state.sessions.get(id) {
            Some(session) if !self.forgotten.contains(&id) => &session.calls[..],
            _ => &[],
        };
        Ok(self.calls.entry(id).or_insert_with(|| stored.iter().map(|call| call.id.as_str()).collect()))
    }
}
