//! Applies changes. Each is a few statements whose cost does not depend on the length of a session.

use meerkat_core::{RunId, SessionId, Timestamp, Usage, Usd};
use rusqlite::{Connection, Params, params};
use uuid::Uuid;

use super::failure::Failure;
use super::guard::{generation, require_session};
use super::recall::scope;
use super::state;
use super::value::{Key, find, get_u64, int, key, micros, usage_row};
use crate::error::ensure;
use crate::rows::day_of;
use crate::{Blob, Change, Committed, Error, NewCall, NewMemory, NewSession};

/// Applies one change on behalf of the owner `me`.
pub(super) fn apply(
    connection: &Connection,
    me: Uuid,
    change: Change,
    committed: &mut Committed,
) -> Result<(), Failure> {
    let me = me.into_bytes();
    match change {
        Change::CreateSession(new) => create_session(connection, &new)?,
        Change::TakeLease { session, run, expires_at } => {
            committed.fence = Some(take_lease(connection, me, session, (run, expires_at))?);
        }
        Change::RenewLeases { sessions, expires_at } => {
            let renew = "UPDATE sessions SET expires_at = max(expires_at, ?3) WHERE id = ?1 AND owner = ?2";
            for session in sessions {
                execute(connection, renew, params![key(session), me, micros(expires_at)])?;
            }
        }
        Change::ReleaseLease(session) => {
            require_session(connection, session)?;
            let release = "UPDATE sessions SET owner = NULL, interrupt = 0 WHERE id = ?1 AND owner = ?2";
            execute(connection, release, params![key(session), me])?;
        }
        Change::RequestInterrupt(session) => {
            require_session(connection, session)?;
            let flag = "UPDATE sessions SET interrupt = 1 WHERE id = ?1 AND owner IS NOT NULL";
            execute(connection, flag, [key(session)])?;
        }
        Change::Append { session, messages, at } => append(connection, session, &messages, at)?,
        Change::OpenCalls { session, calls } => open_calls(connection, session, &calls)?,
        Change::PutCall { session, call } => {
            let put = "UPDATE calls SET call = ?3 WHERE session = ?1 AND id = ?2";
            change_call(connection, session, put, (&call.id, &call.call))?;
        }
        Change::CompleteCall { session, call, result } => {
            let complete = "UPDATE calls SET result = ?3 WHERE session = ?1 AND id = ?2";
            change_call(connection, session, complete, (&call, &result))?;
        }
        Change::CloseCalls(session) => {
            require_session(connection, session)?;
            execute(connection, "DELETE FROM calls WHERE session = ?1", [key(session)])?;
        }
        Change::PutSettings { session, settings } => {
            let put = "UPDATE settings SET settings = ?2 WHERE session = ?1";
            change_session(connection, session, put, params![key(session), settings])?;
        }
        Change::PutProgress { session, progress } => {
            let put = "UPDATE sessions SET progress = ?2 WHERE id = ?1";
            change_session(connection, session, put, params![key(session), progress])?;
        }
        Change::AddUsage { session, at, usage, cost } => add_usage(connection, session, at, (usage, cost))?,
        Change::IndexMemories { session, memories, at } => remember(connection, session, &memories, at)?,
        Change::Archive { session, at } => {
            let archive = "UPDATE sessions SET archived_at = coalesce(archived_at, ?2) WHERE id = ?1";
            change_session(connection, session, archive, params![key(session), micros(at)])?;
        }
        Change::DeleteSession(session) => forget(connection, session)?,
        Change::PutConfig(document) => committed.generation = Some(put_config(connection, &document)?),
        Change::PutTask { session, id, task } => put_task(connection, session, &id, &task)?,
        Change::PutBlob(blob) => put_blob(connection, &blob)?,
        Change::PutState { scope, key, value } => {
            committed.replaced = state::put(connection, &scope, &key, &value)?;
        }
        Change::DeleteState { scope, key } => committed.replaced = state::delete(connection, &scope, &key)?,
    }
    Ok(())
}

/// Executes a statement and returns the number of changed rows.
fn execute(connection: &Connection, statement: &'static str, values: impl Params) -> Result<usize, Failure> {
    Ok(connection.prepare_cached(statement)?.execute(values)?)
}

/// Executes a statement that changes exactly one row if the session exists.
fn change_session(
    connection: &Connection,
    session: SessionId,
    statement: &'static str,
    values: impl Params,
) -> Result<(), Failure> {
    let changed = execute(connection, statement, values)?;
    Ok(ensure(changed > 0, || Error::SessionNotFound(session))?)
}

fn create_session(connection: &Connection, new: &NewSession) -> Result<(), Failure> {
    let (id, at) = (key(new.id), micros(new.created_at));
    let insert = "INSERT INTO sessions (id, created_at, updated_at, message_count, progress, changed) \
                  VALUES (?1, ?2, ?2, 0, ?3, (SELECT coalesce(max(changed), 0) + 1 FROM sessions)) \
                  ON CONFLICT DO NOTHING";
    let inserted = execute(connection, insert, params![id, at, new.progress])?;
    ensure(inserted > 0, || Error::SessionExists(new.id))?;
    let insert = "INSERT INTO settings (session, settings) VALUES (?1, ?2)";
    execute(connection, insert, params![id, new.settings])?;
    for (name, value) in &new.labels {
        let insert = "INSERT INTO labels (session, name, value) VALUES (?1, ?2, ?3)";
        execute(connection, insert, params![id, name, value])?;
    }
    Ok(())
}

fn forget(connection: &Connection, session: SessionId) -> Result<(), Failure> {
    require_session(connection, session)?;
    for statement in [
        "DELETE FROM messages WHERE session = ?1",
        "DELETE FROM calls WHERE session = ?1",
        "DELETE FROM tasks WHERE session = ?1",
        "DELETE FROM labels WHERE session = ?1",
        "DELETE FROM usage WHERE session = ?1",
        "DELETE FROM memories WHERE session = ?1",
        "DELETE FROM settings WHERE session = ?1",
        "DELETE FROM sessions WHERE id = ?1",
    ] {
        execute(connection, statement, [key(session)])?;
    }
    Ok(())
}

fn add_usage(
    connection: &Connection,
    session: SessionId,
    at: Timestamp,
    (usage, cost): (Usage, Usd),
) -> Result<(), Failure> {
    require_session(connection, session)?;
    let (key, day) = (key(session), day_of(at));
    let query = "SELECT session, day, input, output, cache_creation, cache_read, cost FROM usage \
                 WHERE session = ?1 AND day = ?2";
    let known = find(connection, query, params![key, day], usage_row)?;
    let mut total = known.map_or_else(Default::default, |row| (row.usage, row.cost));
    total.0 += usage;
    total.1 += cost;
    let (Usage { input_tokens, output_tokens, cache_creation_tokens, cache_read_tokens }, cost) = total;
    let (input, output, cost) = (int(input_tokens), int(output_tokens), int(cost.micros()));
    let (created, read) = (cache_creation_tokens.map(int), cache_read_tokens.map(int));
    let put = "INSERT OR REPLACE INTO usage (session, day, input, output, cache_creation, cache_read, cost) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    execute(connection, put, params![key, day, input, output, created, read, cost]).map(drop)
}

fn remember(
    connection: &Connection,
    session: SessionId,
    memories: &[NewMemory],
    at: Timestamp,
) -> Result<(), Failure> {
    require_session(connection, session)?;
    let scope = scope(session);
    let insert = "INSERT INTO memories (session, seq, at, scope, text) VALUES (?1, ?2, ?3, ?4, ?5) \
                  ON CONFLICT DO NOTHING";
    for NewMemory { seq, text } in memories {
        execute(connection, insert, params![key(session), int(*seq), micros(at), scope, text])?;
    }
    Ok(())
}

fn take_lease(
    connection: &Connection,
    me: Key,
    session: SessionId,
    (run, expires_at): (RunId, Timestamp),
) -> Result<u64, Failure> {
    let take = "UPDATE sessions SET fence = fence + 1, owner = ?2, run = ?3, expires_at = ?4, interrupt = 0 \
                WHERE id = ?1 RETURNING fence";
    let values = params![key(session), me, run.uuid().into_bytes(), micros(expires_at)];
    let fence = find(connection, take, values, |row| get_u64(row, 0))?;
    fence.ok_or_else(|| Error::SessionNotFound(session).into())
}

fn append(
    connection: &Connection,
    session: SessionId,
    messages: &[Vec<u8>],
    at: Timestamp,
) -> Result<(), Failure> {
    let added = i64::try_from(messages.len()).unwrap_or(i64::MAX);
    let count = "UPDATE sessions SET updated_at = ?2, message_count = message_count + ?3, \
                 changed = (SELECT max(changed) + 1 FROM sessions) WHERE id = ?1 RETURNING message_count - ?3";
    let first = find(connection, count, params![key(session), micros(at), added], |row| get_u64(row, 0))?;
    let first = first.ok_or(Error::SessionNotFound(session))?;
    let mut insert =
        connection.prepare_cached("INSERT INTO messages (session, seq, message) VALUES (?1, ?2, ?3)")?;
    for (seq, message) in (first..).zip(messages) {
        insert.execute(params![key(session), int(seq), message])?;
    }
    Ok(())
}

fn open_calls(connection: &Connection, session: SessionId, calls: &[NewCall]) -> Result<(), Failure> {
    require_session(connection, session)?;
    let mut insert = connection.prepare_cached(
        "INSERT INTO calls (session, position, id, call) \
         SELECT ?1, coalesce(max(position) + 1, 0), ?2, ?3 FROM calls WHERE session = ?1 \
         ON CONFLICT (session, id) DO NOTHING",
    )?;
    for new in calls {
        let inserted = insert.execute(params![key(session), new.id, new.call])?;
        ensure(inserted > 0, || Error::CallExists { session, call: new.id.clone() })?;
    }
    Ok(())
}

fn change_call(
    connection: &Connection,
    session: SessionId,
    statement: &'static str,
    (call, value): (&String, &[u8]),
) -> Result<(), Failure> {
    require_session(connection, session)?;
    let changed = execute(connection, statement, params![key(session), call, value])?;
    Ok(ensure(changed > 0, || Error::CallNotFound { session, call: call.clone() })?)
}

fn put_config(connection: &Connection, document: &[u8]) -> Result<u64, Failure> {
    let next = generation(connection)?.saturating_add(1);
    let put = "INSERT INTO config (one, generation, document) VALUES (1, ?1, ?2) \
               ON CONFLICT (one) DO UPDATE SET generation = excluded.generation, document = excluded.document";
    execute(connection, put, params![int(next), document])?;
    Ok(next)
}

fn put_task(connection: &Connection, session: SessionId, id: &str, task: &[u8]) -> Result<(), Failure> {
    require_session(connection, session)?;
    let put = "INSERT INTO tasks (session, position, id, task) \
               SELECT ?1, coalesce(max(position) + 1, 0), ?2, ?3 FROM tasks WHERE session = ?1 \
               ON CONFLICT (session, id) DO UPDATE SET task = excluded.task";
    execute(connection, put, params![key(session), id, task]).map(drop)
}

fn put_blob(connection: &Connection, blob: &Blob) -> Result<(), Failure> {
    let put = "INSERT INTO blobs (id, media_type, data) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
    execute(connection, put, params![blob.id.as_str(), blob.media_type, blob.data]).map(drop)
}
