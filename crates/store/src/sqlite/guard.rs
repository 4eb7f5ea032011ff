//! Checks guards inside the transaction that they guard.

use meerkat_core::{SessionId, Timestamp};
use rusqlite::Connection;
use uuid::Uuid;

use super::failure::Failure;
use super::state;
use super::value::{find, get_time, get_u64, get_uuid, key};
use crate::error::ensure;
use crate::owner::Peers;
use crate::{Error, Guard};

/// A lease that was not released.
struct Held {
    owner: Uuid,
    fence: u64,
    expires_at: Timestamp,
}

/// Checks one guard.
pub(super) fn check(connection: &Connection, peers: &Peers, guard: &Guard) -> Result<(), Failure> {
    let held = |session: &SessionId| held(connection, *session);
    let is_held = |session, now: &Timestamp| -> rusqlite::Result<bool> {
        Ok(held(session)?.is_some_and(|held| held.expires_at > *now && peers.is_alive(held.owner)))
    };
    let checked = match guard {
        Guard::NotArchived(session) => {
            let archived = is_archived(connection, *session)?;
            ensure(!archived, || Error::Archived(*session))
        }
        Guard::LeaseFree { session, now } => ensure(!is_held(session, now)?, || Error::Busy(*session)),
        Guard::Running { session, now } => ensure(is_held(session, now)?, || Error::NotRunning(*session)),
        Guard::HoldsLease { session, fence } => {
            let is_mine = |held: Held| held.owner == peers.me && held.fence == *fence;
            ensure(held(session)?.is_some_and(is_mine), || Error::LeaseLost(*session))
        }
        Guard::FenceUnchanged { session, fence } => {
            let query = "SELECT fence FROM sessions WHERE id = ?1";
            let current = find(connection, query, [key(*session)], |row| get_u64(row, 0))?;
            ensure(current.unwrap_or(0) == *fence, || Error::Changed(*session))
        }
        Guard::State { scope, key, value } => {
            let changed = || Error::StateChanged { scope: scope.clone(), key: key.clone() };
            ensure(state::value(connection, scope, key)? == *value, changed)
        }
        Guard::TasksBelow { session, limit } => {
            let (session, limit) = (*session, *limit);
            let mut query = connection.prepare_cached("SELECT count(*) FROM tasks WHERE session = ?1")?;
            let count = query.query_row([key(session)], |row| get_u64(row, 0))?;
            ensure(count < limit as u64, || Error::TooManyTasks { session, limit })
        }
        Guard::Generation(expected) => {
            let (expected, current) = (*expected, generation(connection)?);
            ensure(current == expected, || Error::Generation { expected, current })
        }
    };
    Ok(checked?)
}

/// Returns an error unless the session exists.
pub(super) fn require_session(connection: &Connection, session: SessionId) -> Result<(), Failure> {
    is_archived(connection, session).map(drop)
}

/// Reads the config generation, 0 before the first change.
pub(super) fn generation(connection: &Connection) -> rusqlite::Result<u64> {
    let generation = find(connection, "SELECT generation FROM config", [], |row| get_u64(row, 0))?;
    Ok(generation.unwrap_or(0))
}

fn is_archived(connection: &Connection, session: SessionId) -> Result<bool, Failure> {
    let query = "SELECT archived_at IS NOT NULL FROM sessions WHERE id = ?1";
    let found = find(connection, query, [key(session)], |row| row.get(0))?;
    found.ok_or_else(|| Error::SessionNotFound(session).into())
}

fn held(connection: &Connection, session: SessionId) -> rusqlite::Result<Option<Held>> {
    let query = "SELECT owner, fence, expires_at FROM sessions WHERE id = ?1 AND owner IS NOT NULL";
    find(connection, query, [key(session)], |row| {
        Ok(Held { owner: get_uuid(row, 0)?, fence: get_u64(row, 1)?, expires_at: get_time(row, 2)? })
    })
}
