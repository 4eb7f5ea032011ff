//! Searches memories with a full scan, which is fast enough for the memories of one process.

use std::collections::BTreeSet;

use meerkat_core::SessionId;

use super::sessions::Sessions;
use super::to_usize;
use crate::{MemoryQuery, MemoryRow};

impl Sessions {
    pub(super) fn recall(&self, query: &MemoryQuery) -> Vec<MemoryRow> {
        let sessions = self.iter().filter(|session| query.session.is_none_or(|only| only == session.row.id));
        let all: Vec<(SessionId, u64, _, &String, BTreeSet<String>)> = sessions
            .flat_map(|session| {
                let memories = session.memories.iter();
                memories.map(|(seq, (at, text))| (session.row.id, *seq, *at, text, words(text)))
            })
            .collect();
        let terms: BTreeSet<_> = query.words.iter().flat_map(|word| words(word)).collect();
        // A rare word is more relevant than one that occurs in all texts.
        let weight = |word: &String| {
            let count = all.iter().filter(|(.., words)| words.contains(word)).count();
            (1.0 + all.len() as f64 / (1.0 + count as f64)).ln()
        };
        let weights: Vec<_> = terms.iter().map(|word| (word, weight(word))).collect();
        let rank = |words: &BTreeSet<String>| {
            weights.iter().filter(|(word, _)| words.contains(*word)).map(|(_, weight)| weight).sum::<f64>()
        };
        let mut found: Vec<_> = all
            .iter()
            .map(|(session, seq, at, text, words)| MemoryRow {
                session: *session,
                seq: *seq,
                at: *at,
                text: (*text).clone(),
                rank: rank(words),
            })
            .filter(|row| row.rank > 0.0)
            .collect();
        found.sort_by(|a, b| b.rank.total_cmp(&a.rank).then(b.seq.cmp(&a.seq)));
        found.truncate(to_usize(query.limit));
        found
    }
}

fn words(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}
