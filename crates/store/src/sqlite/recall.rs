//! Searches memories.

use meerkat_core::SessionId;
use rusqlite::params;

use super::reader::Reader;
use super::value::{get_time, get_u64, get_uuid, int, list};
use crate::{MemoryQuery, MemoryRow};

/// Ranks by how well the words match, regardless of the session. Only the index determines the order, so that texts
/// beyond the limit are never read.
const SEARCH: &str = "SELECT m.session, m.seq, m.at, m.text, f.score FROM \
    (SELECT rowid AS id, bm25(memories_index, 1.0, 0.0) AS score FROM memories_index WHERE memories_index MATCH ?1 \
     ORDER BY score, id DESC LIMIT ?2) f \
    JOIN memories m ON m.id = f.id ORDER BY f.score, m.id DESC";

/// Returns the latest matches, for words that occur in too many texts to be ranked.
const LATEST: &str = "SELECT m.session, m.seq, m.at, m.text, -0.01 FROM memories_index f JOIN memories m ON m.id = f.rowid \
    WHERE memories_index MATCH ?1 ORDER BY f.rowid DESC LIMIT ?2";

/// Counts the texts with a word, up to a limit.
const COUNT: &str =
    "SELECT count(*) FROM (SELECT 1 FROM memories_index WHERE memories_index MATCH ?1 LIMIT 4000)";
/// Number of texts from which on a word is too common to be relevant; ranking all of them would take long.
const COMMON: u64 = 4000;

impl Reader {
    pub(super) fn recall(&self, query: &MemoryQuery) -> rusqlite::Result<Vec<MemoryRow>> {
        let words: Vec<_> = query.words.iter().map(|word| format!("\"{}\"", word.replace('"', ""))).collect();
        if words.is_empty() {
            return Ok(Vec::new());
        }
        if let Some(session) = query.session {
            let terms = format!("scope : {} AND {}", scope(session), any_of(&words));
            return self.search(SEARCH, &terms, query.limit);
        }
        let mut rare = Vec::new();
        for word in &words {
            let mut statement = self.connection.prepare_cached(COUNT)?;
            let count = statement.query_row([any_of(std::slice::from_ref(word))], |row| get_u64(row, 0))?;
            if count < COMMON {
                rare.push(word.clone());
            }
        }
        match rare.as_slice() {
            [] => self.search(LATEST, &any_of(&words), query.limit),
            rare => self.search(SEARCH, &any_of(rare), query.limit),
        }
    }

    fn search(&self, statement: &str, terms: &str, limit: u64) -> rusqlite::Result<Vec<MemoryRow>> {
        list(&self.connection, statement, params![terms, int(limit)], |row| {
            let rank: f64 = row.get(4)?;
            Ok(MemoryRow {
                session: SessionId::from_uuid(get_uuid(row, 0)?),
                seq: get_u64(row, 1)?,
                at: get_time(row, 2)?,
                text: row.get(3)?,
                // Better matches have a lower, negative score.
                rank: -rank,
            })
        })
    }
}

/// Builds a query for any of the words. They are quoted, so that none of them is interpreted as an operator.
fn any_of(words: &[String]) -> String {
    format!("text : ({})", words.join(" OR "))
}

/// Returns the word that identifies a session in the index.
pub(super) fn scope(session: SessionId) -> String {
    format!("s{}", session.uuid().simple())
}
