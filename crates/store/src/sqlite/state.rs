//! Values that callers store under a scope and a key.

use rusqlite::{Connection, Params, Row, params};

use super::value::{find, get_u64, int, list};
use crate::{StateChanges, StateQuery, StateRow};

/// Stores a value and returns the one it replaced.
pub(super) fn put(
    connection: &Connection,
    scope: &str,
    key: &str,
    value: &[u8],
) -> rusqlite::Result<Option<Vec<u8>>> {
    let replaced = self::value(connection, scope, key)?;
    let place = advance(connection, scope)?;
    let put = "INSERT INTO state (scope, key, place, value, changed) VALUES (?1, ?2, ?3, ?4, ?3) \
               ON CONFLICT (scope, key) DO UPDATE SET value = excluded.value, changed = excluded.changed";
    connection.prepare_cached(put)?.execute(params![scope, key, int(place), value])?;
    Ok(replaced)
}

/// Removes a value and returns it.
pub(super) fn delete(connection: &Connection, scope: &str, key: &str) -> rusqlite::Result<Option<Vec<u8>>> {
    let delete = "DELETE FROM state WHERE scope = ?1 AND key = ?2 RETURNING value";
    let removed = find(connection, delete, [scope, key], |row| row.get(0))?;
    if removed.is_some() {
        let revision = advance(connection, scope)?;
        let mut note = connection.prepare_cached("UPDATE scopes SET removed = ?2 WHERE scope = ?1")?;
        note.execute(params![scope, int(revision)])?;
    }
    Ok(removed)
}

/// Reads one value.
pub(super) fn value(connection: &Connection, scope: &str, key: &str) -> rusqlite::Result<Option<Vec<u8>>> {
    let query = "SELECT value FROM state WHERE scope = ?1 AND key = ?2";
    find(connection, query, [scope, key], |row| row.get(0))
}

/// Reads one value with its key, or all of a scope.
pub(super) fn read(connection: &Connection, query: &StateQuery) -> rusqlite::Result<Vec<StateRow>> {
    match query {
        StateQuery::Key { scope, key } => {
            let found = value(connection, scope, key)?;
            Ok(found.map(|value| StateRow { key: key.clone(), value }).into_iter().collect())
        }
        StateQuery::Scope(scope) => {
            rows(connection, "SELECT key, value FROM state WHERE scope = ?1 ORDER BY place", [scope])
        }
    }
}

fn rows(connection: &Connection, select: &str, params: impl Params) -> rusqlite::Result<Vec<StateRow>> {
    let row = |row: &Row<'_>| Ok(StateRow { key: row.get(0)?, value: row.get(1)? });
    list(connection, select, params, row)
}

/// Reads the changes in a scope after a revision.
pub(super) fn changes(connection: &Connection, scope: &str, since: u64) -> rusqlite::Result<StateChanges> {
    let query = "SELECT revision, removed FROM scopes WHERE scope = ?1";
    let found = find(connection, query, [scope], |row| Ok((get_u64(row, 0)?, get_u64(row, 1)?)))?;
    let (revision, removed) = found.unwrap_or_default();
    if revision <= since {
        return Ok(StateChanges { revision, ..StateChanges::default() });
    }
    let select = "SELECT key, value FROM state WHERE scope = ?1 AND changed > ?2 ORDER BY place";
    let put = rows(connection, select, params![scope, int(since)])?;
    let keys = || list(connection, "SELECT key FROM state WHERE scope = ?1", [scope], |row| row.get(0));
    let keys = (removed > since).then(keys).transpose()?;
    Ok(StateChanges { revision, put, keys })
}

/// Lists the scopes that have values.
pub(super) fn scopes(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let query = "SELECT scope FROM scopes WHERE EXISTS (SELECT 1 FROM state WHERE state.scope = scopes.scope) \
                 ORDER BY scope";
    list(connection, query, [], |row| row.get(0))
}

/// Reads the number of changes to a scope.
pub(super) fn revision(connection: &Connection, scope: &str) -> rusqlite::Result<u64> {
    let query = "SELECT revision FROM scopes WHERE scope = ?1";
    Ok(find(connection, query, [scope], |row| get_u64(row, 0))?.unwrap_or(0))
}

/// Increments the revision of a scope, and returns it.
fn advance(connection: &Connection, scope: &str) -> rusqlite::Result<u64> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO scopes (scope, revision) VALUES (?1, 1) \
         ON CONFLICT (scope) DO UPDATE SET revision = revision + 1 RETURNING revision",
    )?;
    statement.query_row([scope], |row| get_u64(row, 0))
}
