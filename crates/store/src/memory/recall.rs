//! Searching what was remembered: every text is looked at, which is quick enough for what one process remembers.

use std::collections::BTreeSet;

use meerkat_core::SessionId;

use super::{State, to_usize};
use crate::{MemoryQuery, MemoryRow};

impl State {
    pub(super) fn recall(&self, query: &MemoryQuery) -> Vec<MemoryRow> {
        let sessions = self.sessions.iter().filter(|(id, _)| query.session.is_none_or(|own| own == **id));
        let all: Vec<(SessionId, u64, _, &String, BTreeSet<String>)> = sessions
            .flat_map(|(id, session)| {
                session.memories.iter().map(|(seq, (at, text))| (*id, *seq, *at, text, words(text)))
            })
            .collect();
        let sought: BTreeSet<_> = query.words.iter().flat_map(|word| words(word)).collect();
        // A word that few texts have says more than one that all have.
        let weight = |word: &String| {
            let having = all.iter().filter(|(.., words)| words.contains(word)).count();
            (1.0 + all.len() as f64 / (1.0 + having as f64)).ln()
        };
        let weights: Vec<_> = sought.iter().map(|word| (word, weight(word))).collect();
        let rank = |have: &BTreeSet<String>| {
            weights.iter().filter(|(word, _)| have.contains(*word)).map(|(_, weight)| weight).sum::<f64>()
        };
        let mut found: Vec<_> = all
            .iter()
            .map(|(session, seq, at, text, have)| MemoryRow {
                session: *session,
                seq: *seq,
                at: *at,
                text: (*text).clone(),
                rank: rank(have),
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
