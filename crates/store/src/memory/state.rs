//! Values that programs keep under a scope and a key.

use std::collections::{BTreeMap, HashMap};

use super::State;
use crate::{StateQuery, StateRow};

/// The values of one scope, by the places they have for as long as they are there.
#[derive(Debug, Default)]
pub(super) struct Scope {
    revision: u64,
    places: HashMap<String, u64>,
    rows: BTreeMap<u64, StateRow>,
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
        self.rows.get(self.places.get(key)?)
    }

    pub(super) fn put(&mut self, key: String, value: Vec<u8>) -> Option<Vec<u8>> {
        self.revision += 1;
        let place = *self.places.entry(key.clone()).or_insert(self.revision);
        self.rows.insert(place, StateRow { key, value }).map(|row| row.value)
    }

    pub(super) fn delete(&mut self, key: &str) -> Option<Vec<u8>> {
        let removed = self.rows.remove(&self.places.remove(key)?)?;
        self.revision += 1;
        Some(removed.value)
    }
}

impl State {
    pub(super) fn values(&self, query: &StateQuery) -> Vec<StateRow> {
        match query {
            StateQuery::Key { scope, key } => {
                self.scopes.get(scope).and_then(|scope| scope.row(key)).cloned().into_iter().collect()
            }
            StateQuery::Scope(scope) => {
                self.scopes.get(scope).map_or_else(Vec::new, |scope| scope.rows.values().cloned().collect())
            }
        }
    }
}
