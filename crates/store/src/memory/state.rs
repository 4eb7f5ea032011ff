//! Values that callers store under a scope and a key.

use std::collections::{BTreeMap, HashMap};

use super::State;
use crate::{StateChanges, StateQuery, StateRow};

/// The values of a scope, by position. A value keeps its position until it is removed.
#[derive(Debug, Default)]
pub(super) struct Scope {
    revision: u64,
    /// Revision at which a key was last removed.
    removed: u64,
    positions: HashMap<String, u64>,
    /// Values with the revision at which each was put.
    rows: BTreeMap<u64, (u64, StateRow)>,
}

impl Scope {
    pub(super) const fn revision(&self) -> u64 {
        self.revision
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(super) fn get(&self, key: &str) -> Option<&[u8]> {
        self.row(key).map(|row| &row.value[..])
    }

    fn row(&self, key: &str) -> Option<&StateRow> {
        self.rows.get(self.positions.get(key)?).map(|(_, row)| row)
    }

    pub(super) fn changes(&self, since: u64) -> StateChanges {
        let put = self.rows.values().filter(|(changed, _)| *changed > since).map(|(_, row)| row.clone());
        let keys = (self.removed > since).then(|| self.positions.keys().cloned().collect());
        StateChanges { revision: self.revision, put: put.collect(), keys }
    }

    pub(super) fn put(&mut self, key: String, value: Vec<u8>) -> Option<Vec<u8>> {
        self.revision += 1;
        let position = *self.positions.entry(key.clone()).or_insert(self.revision);
        let row = (self.revision, StateRow { key, value });
        self.rows.insert(position, row).map(|(_, row)| row.value)
    }

    pub(super) fn delete(&mut self, key: &str) -> Option<Vec<u8>> {
        let (_, removed) = self.rows.remove(&self.positions.remove(key)?)?;
        self.revision += 1;
        self.removed = self.revision;
        Some(removed.value)
    }
}

impl State {
    pub(super) fn values(&self, query: &StateQuery) -> Vec<StateRow> {
        match query {
            StateQuery::Key { scope, key } => {
                self.scopes.get(scope).and_then(|scope| scope.row(key)).cloned().into_iter().collect()
            }
            StateQuery::Scope(scope) => self
                .scopes
                .get(scope)
                .map_or_else(Vec::new, |scope| scope.rows.values().map(|(_, row)| row.clone()).collect()),
        }
    }
}
