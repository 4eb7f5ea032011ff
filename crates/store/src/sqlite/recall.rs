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

/// Where every word is in too many texts to be ranked, the latest of them.
const LATEST: &str = "SELECT m.session, m.seq, m.at, m.text, -0.01 FROM memories_index f JOIN memories m ON m.id = f.rowid \
    WHERE memories_index MATCH ?1 ORDER BY f.rowid DESC LIMIT ?2";

/// Says how many texts have a word, as far as that matters.
const HAVING: &str =
    "SELECT count(*) FROM (SELECT 1 FROM memories_index WHERE memories_index MATCH ?1 LIMIT 4000)";
/// A word that so many texts have does not tell them apart, and ranking them all would take long.
const COMMON: u64 = 4000;

impl Reader {
    pub(super) fn recall(&self, query: &MemoryQuery) -> Result<Vec<MemoryRow>, Failure> {
        let words: Vec<_> = query.words.iter().map(|word| format!("\"{}\"", word.replace('"', ""))).collect();
        if words.is_empty() {
            return Ok(Vec::new());
        }
        if let Some(session) = query.session {
            let sought = format!("scope : {} AND {}", scope(session), any_of(&words));
            return self.found(SEARCH, &sought, query.limit);
        }
        let mut rare = Vec::new();
        for word in &words {
            let mut statement = self.connection.prepare_cached(HAVING)?;
            let having = statement.query_row([any_of(std::slice::from_ref(word))], |row| get_u64(row, 0))?;
            if having < COMMON {
                rare.push(word.clone());
            }
        }
        match rare.as_slice() {
            [] => self.found(LATEST, &any_of(&words), query.limit),
            rare => self.found(SEARCH, &any_of(rare), query.limit),
        }
    }

    fn found(&self, statement: &str, sought: &str, limit: u64) -> Result<Vec<MemoryRow>, Failure> {
        let mut statement = self.connection.prepare_cached(statement)?;
        let rows = statement.query_map(params![sought, int(limit)], |row| {
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

/// Asks the index for words, which are quoted, so that none of them means anything to it.
fn any_of(words: &[String]) -> String {
    format!("text : ({})", words.join(" OR "))
}

/// Returns the one word of a session in the index.
pub(super) fn scope(session: SessionId) -> String {
    format!("s{}", session.uuid().simple())
}
