//! Checks guards inside the transaction that they guard.

use meerkat_core::{SessionId, Timestamp};
use rusqlite::{Connection, OptionalExtension as _};
use uuid::Uuid;

use super::failure::Failure;
use super::state;
use super::value::{get_time, get_u64, get_uuid, key};
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
    match guard {
        Guard::NotArchived(session) => require_live(connection, *session),
        Guard::LeaseFree { session, now } => {
            if is_held(connection, peers, *session, *now)? {
                return Err(Error::Busy(*session).into());
            }
            Ok(())
        }
        Guard::Running { session, now } => {
            if !is_held(connection, peers, *session, *now)? {
                return Err(Error::NotRunning(*session).into());
            }
            Ok(())
        }
        Guard::HoldsLease { session, fence } => {
            let matches = |held: &Held| held.owner == peers.me && held.fence == *fence;
            if !held(connection, *session)?.as_ref().is_some_and(matches) {
                return Err(Error::LeaseLost(*session).into());
            }
            Ok(())
        }
        Guard::FenceUnchanged { session, fence } => {
            let mut statement = connection.prepare_cached("SELECT fence FROM sessions WHERE id = ?1")?;
            let current = statement.query_row([key(*session)], |row| get_u64(row, 0)).optional()?;
            if current.unwrap_or(0) != *fence {
                return Err(Error::Changed(*session).into());
            }
            Ok(())
        }
        Guard::State { scope, key, value } => {
            if state::value(connection, scope, key)? != *value {
                return Err(Error::StateChanged { scope: scope.clone(), key: key.clone() }.into());
            }
            Ok(())
        }
        Guard::TasksBelow { session, limit } => require_tasks_below(connection, *session, *limit),
        Guard::Generation(expected) => require_generation(connection, *expected),
    }
}

/// Returns an error unless the session exists.
pub(super) fn require_session(connection: &Connection, session: SessionId) -> Result<(), Failure> {
    is_archived(connection, session).map(drop)
}

/// Reads the config generation, 0 before the first change.
pub(super) fn generation(connection: &Connection) -> rusqlite::Result<u64> {
    let mut statement = connection.prepare_cached("SELECT generation FROM config")?;
    Ok(statement.query_row([], |row| get_u64(row, 0)).optional()?.unwrap_or(0))
}

fn require_live(connection: &Connection, session: SessionId) -> Result<(), Failure> {
    if is_archived(connection, session)? {
        return Err(Error::Archived(session).into());
    }
    Ok(())
}

fn is_archived(connection: &Connection, session: SessionId) -> Result<bool, Failure> {
    let mut statement =
        connection.prepare_cached("SELECT archived_at IS NOT NULL FROM sessions WHERE id = ?1")?;
    let found = statement.query_row([key(session)], |row| row.get(0)).optional()?;
    found.ok_or_else(|| Error::SessionNotFound(session).into())
}

fn require_tasks_below(connection: &Connection, session: SessionId, limit: usize) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached("SELECT count(*) FROM tasks WHERE session = ?1")?;
    let count = statement.query_row([key(session)], |row| get_u64(row, 0))?;
    if count >= limit as u64 {
        return Err(Error::TooManyTasks { session, limit }.into());
    }
    Ok(())
}

fn require_generation(connection: &Connection, expected: u64) -> Result<(), Failure> {
    let current = generation(connection)?;
    if current != expected {
        return Err(Error::Generation { expected, current }.into());
    }
    Ok(())
}

fn is_held(
    connection: &Connection,
    peers: &Peers,
    session: SessionId,
    now: Timestamp,
) -> rusqlite::Result<bool> {
    let counts = |held: &Held| held.expires_at > now && peers.is_alive(held.owner);
    Ok(held(connection, session)?.as_ref().is_some_and(counts))
}

fn held(connection: &Connection, session: SessionId) -> rusqlite::Result<Option<Held>> {
    let mut statement = connection.prepare_cached(
        "SELECT owner, fence, expires_at FROM sessions WHERE id = ?1 AND owner IS NOT NULL",
    )?;
    statement
        .query_row([key(session)], |row| {
            Ok(Held { owner: get_uuid(row, 0)?, fence: get_u64(row, 1)?, expires_at: get_time(row, 2)? })
        })
        .optional()
}
