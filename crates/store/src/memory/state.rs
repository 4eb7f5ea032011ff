//! Values that programs keep under a scope and a key.

use std::collections::{BTreeMap, HashMap};

use super::State;
use crate::{StateChanges, StateQuery, StateRow};

/// The values of one scope, by the places they have for as long as they are there.
#[derive(Debug, Default)]
pub(super) struct Scope {
    revision: u64,
    /// The revision at which a key was last removed.
    removed: u64,
    places: HashMap<String, u64>,
    /// Each with the revision at which it was put.
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
        self.rows.get(self.places.get(key)?).map(|(_, row)| row)
    }

    pub(super) fn changes(&self, since: u64) -> StateChanges {
        let put = self.rows.values().filter(|(changed, _)| *changed > since).map(|(_, row)| row.clone());
        let keys = (self.removed > since).then(|| self.places.keys().cloned().collect());
        StateChanges { revision: self.revision, put: put.collect(), keys }
    }

    pub(super) fn put(&mut self, key: String, value: Vec<u8>) -> Option<Vec<u8>> {
        self.revision += 1;
        let place = *self.places.entry(key.clone()).or_insert(self.revision);
        let row = (self.revision, StateRow { key, value });
        self.rows.insert(place, row).map(|(_, row)| row.value)
    }

    pub(super) fn delete(&mut self, key: &str) -> Option<Vec<u8>> {
        let (_, removed) = self.rows.remove(&self.places.remove(key)?)?;
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
