//! Queries of the reader thread. Each reads one snapshot of the database.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use meerkat_core::{BlobId, RunId, SessionId};
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params, params_from_iter};
use uuid::Uuid;

use super::failure::Failure;
use super::failure_log::FailureLog;
use super::value::{find, get_optional_time, get_time, get_u64, get_uuid, int, key, list, usage_row};
use crate::owner::Peers;
use crate::{
    ArchivedFilter, Blob, CallRow, ConfigRow, Error, LeaseRow, MessageRow, SessionQuery, SessionRow, UsageRow,
};

const SESSION: &str = "SELECT s.id, s.created_at, s.updated_at, s.archived_at, s.message_count, s.progress, \
    t.settings, s.owner, s.run, s.fence, s.expires_at \
    FROM sessions s JOIN settings t ON t.session = s.id WHERE s.id = ?1";

/// State of the reader thread.
pub(super) struct Reader {
    pub(super) connection: Connection,
    pub(super) peers: Peers,
    pub(super) path: PathBuf,
    pub(super) failures: FailureLog,
}

impl Reader {
    /// Runs a query in a snapshot.
    pub(super) fn answer<T, E: Into<Failure>>(
        &self,
        read: impl FnOnce(&Self) -> Result<T, E>,
    ) -> Result<T, Error> {
        let run = || {
            let snapshot = self.connection.unchecked_transaction()?;
            let result = read(self).map_err(E::into)?;
            snapshot.finish()?;
            Ok(result)
        };
        run().map_err(|failure: Failure| {
            if let Failure::Storage(error) = &failure {
                self.failures.add(&self.path, error, "cannot read the store");
            }
            failure.at(&self.path)
        })
    }

    pub(super) fn session(&self, id: SessionId) -> rusqlite::Result<Option<SessionRow>> {
        self.find(id, &mut LivenessCache::new(&self.peers))
    }

    /// Lists sessions. The page is selected first, so that skipped rows are never read completely.
    pub(super) fn sessions(&self, query: &SessionQuery) -> rusqlite::Result<Vec<SessionRow>> {
        let (text, values) = select(query);
        let mut statement = self.connection.prepare_cached(&text)?;
        let mut rows = statement.query(params_from_iter(values))?;
        let mut liveness = LivenessCache::new(&self.peers);
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.extend(self.find(SessionId::from_uuid(get_uuid(row, 0)?), &mut liveness)?);
        }
        Ok(found)
    }

    fn find(&self, id: SessionId, liveness: &mut LivenessCache<'_>) -> rusqlite::Result<Option<SessionRow>> {
        let mut statement = self.connection.prepare_cached(SESSION)?;
        let mut rows = statement.query([key(id)])?;
        rows.next()?.map(|row| self.session_row(row, liveness)).transpose()
    }

    fn session_row(&self, row: &Row<'_>, liveness: &mut LivenessCache<'_>) -> rusqlite::Result<SessionRow> {
        let id = SessionId::from_uuid(get_uuid(row, 0)?);
        Ok(SessionRow {
            id,
            created_at: get_time(row, 1)?,
            updated_at: get_time(row, 2)?,
            archived_at: get_optional_time(row, 3)?,
            message_count: get_u64(row, 4)?,
            progress: row.get(5)?,
            settings: row.get(6)?,
            labels: self.labels(id)?,
            fence: get_u64(row, 9)?,
            lease: lease(row, liveness)?,
        })
    }

    fn labels(&self, id: SessionId) -> rusqlite::Result<BTreeMap<String, String>> {
        let query = "SELECT name, value FROM labels WHERE session = ?1";
        list(&self.connection, query, [key(id)], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    pub(super) fn messages(&self, id: SessionId, from: u64, limit: u64) -> rusqlite::Result<Vec<MessageRow>> {
        let query =
            "SELECT seq, message FROM messages WHERE session = ?1 AND seq >= ?2 ORDER BY seq LIMIT ?3";
        list(&self.connection, query, params![key(id), int(from), int(limit)], |row| {
            Ok(MessageRow { seq: get_u64(row, 0)?, message: row.get(1)? })
        })
    }

    pub(super) fn calls(&self, id: SessionId) -> rusqlite::Result<Vec<CallRow>> {
        let query = "SELECT id, call, result FROM calls WHERE session = ?1 ORDER BY position";
        list(&self.connection, query, [key(id)], |row| {
            Ok(CallRow { id: row.get(0)?, call: row.get(1)?, result: row.get(2)? })
        })
    }

    pub(super) fn config(&self) -> rusqlite::Result<Option<ConfigRow>> {
        find(&self.connection, "SELECT generation, document FROM config", [], |row| {
            Ok(ConfigRow { generation: get_u64(row, 0)?, document: row.get(1)? })
        })
    }

    pub(super) fn has_blob(&self, id: &BlobId) -> rusqlite::Result<bool> {
        self.connection.prepare_cached("SELECT 1 FROM blobs WHERE id = ?1")?.exists([id.as_str()])
    }

    pub(super) fn blob(&self, id: BlobId) -> rusqlite::Result<Option<Blob>> {
        let query = "SELECT media_type, data FROM blobs WHERE id = ?1";
        let found = find(&self.connection, query, [id.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(found.map(|(media_type, data)| Blob { id, media_type, data }))
    }

    pub(super) fn tasks(&self, id: SessionId) -> rusqlite::Result<Vec<Vec<u8>>> {
        let query = "SELECT task FROM tasks WHERE session = ?1 ORDER BY position";
        list(&self.connection, query, [key(id)], |row| row.get(0))
    }

    pub(super) fn usage(&self) -> rusqlite::Result<Vec<UsageRow>> {
        let query = "SELECT session, day, input, output, cache_creation, cache_read, cost FROM usage \
                     ORDER BY session, day";
        list(&self.connection, query, [], usage_row)
    }

    pub(super) fn interrupts(&self) -> rusqlite::Result<Vec<SessionId>> {
        let query = "SELECT id FROM sessions WHERE owner = ?1 AND interrupt = 1 ORDER BY id";
        let id = |row: &Row<'_>| get_uuid(row, 0).map(SessionId::from_uuid);
        list(&self.connection, query, [self.peers.me.into_bytes()], id)
    }
}

/// Builds the SQL query of a list. Values from the caller are bound as parameters and never part of the text.
fn select(query: &SessionQuery) -> (String, Vec<Value>) {
    let mut text = "SELECT id FROM sessions WHERE ".to_owned();
    text.push_str(match query.archived {
        ArchivedFilter::Hidden => "archived_at IS NULL",
        ArchivedFilter::Included => "true",
    });
    let mut values: Vec<Value> = Vec::new();
    for (name, value) in &query.labels {
        text.push_str(" AND id IN (SELECT session FROM labels WHERE name = ? AND value = ?)");
        values.extend([name.clone().into(), value.clone().into()]);
    }
    text.push_str(" ORDER BY changed DESC LIMIT ? OFFSET ?");
    values.extend([query.limit.map_or(-1, int).into(), int(query.offset).into()]);
    (text, values)
}

fn lease(row: &Row<'_>, liveness: &mut LivenessCache<'_>) -> rusqlite::Result<Option<LeaseRow>> {
    let Some(owner) = row.get::<_, Option<[u8; 16]>>(7)? else {
        return Ok(None);
    };
    if !liveness.has(Uuid::from_bytes(owner)) {
        return Ok(None);
    }
    let run = RunId::from_uuid(get_uuid(row, 8)?);
    Ok(Some(LeaseRow { run, fence: get_u64(row, 9)?, expires_at: get_time(row, 10)? }))
}

/// Cache of the liveness of owners during one query.
struct LivenessCache<'a> {
    peers: &'a Peers,
    known: HashMap<Uuid, bool>,
}

impl<'a> LivenessCache<'a> {
    fn new(peers: &'a Peers) -> Self {
        Self { peers, known: HashMap::new() }
    }

    fn has(&mut self, owner: Uuid) -> bool {
        *self.known.entry(owner).or_insert_with(|| self.peers.is_alive(owner))
    }
}
