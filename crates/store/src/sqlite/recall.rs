//! Searching what was remembered.

use meerkat_core::SessionId;
use rusqlite::params;

use super::fault::Failure;
use super::reader::Reader;
use super::value::{get_time, get_u64, get_uuid, int};
use crate::{MemoryQuery, MemoryRow};

/// Ranked by how well the words fit, and not by where it was said. The order is that of the index alone, so that the
/// texts of what is not shown are never read.
const SEARCH: &str = "SELECT m.session, m.seq, m.at, m.text, f.score FROM \
    (SELECT rowid AS id, bm25(memories_index, 1.0, 0.0) AS score FROM memories_index WHERE memories_index MATCH ?1 \
     ORDER BY score, id DESC LIMIT ?2) f \
    JOIN memories m ON m.id = f.id ORDER BY f.score, m.id DESC";

impl Reader {
    pub(super) fn recall(&self, query: &MemoryQuery) -> Result<Vec<MemoryRow>, Failure> {
        let Some(sought) = sought(query) else { return Ok(Vec::new()) };
        let mut statement = self.connection.prepare_cached(SEARCH)?;
        let rows = statement.query_map(params![sought, int(query.limit)], |row| {
            let rank: f64 = row.get(4)?;
            Ok(MemoryRow {
                session: SessionId::from_uuid(get_uuid(row, 0)?),
                seq: get_u64(row, 1)?,
                at: get_time(row, 2)?,
                text: row.get(3)?,
                // The better, the more negative.
                rank: -rank,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

/// Writes the words as the index is asked for them. Each is quoted, so none of them means anything to it.
fn sought(query: &MemoryQuery) -> Option<String> {
    let quoted = |word: &String| format!("\"{}\"", word.replace('"', ""));
    let words: Vec<_> = query.words.iter().map(quoted).collect();
    if words.is_empty() {
        return None;
    }
    let words = format!("text : ({})", words.join(" OR "));
    Some(match query.session {
        Some(session) => format!("scope : {} AND {words}", scope(session)),
        None => words,
    })
}

/// Returns the one word of a session in the index.
pub(super) fn scope(session: SessionId) -> String {
    format!("s{}", session.uuid().simple())
}
