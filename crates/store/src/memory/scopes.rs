//! Values that callers store under a scope and a key.

use std::collections::{BTreeMap, HashMap};

use crate::{StateChanges, StateQuery, StateRow};

/// All scopes, by name.
#[derive(Debug, Default)]
pub(super) struct Scopes(BTreeMap<String, Scope>);

impl Scopes {
    pub(super) fn names(&self) -> Vec<String> {
        self.0.iter().filter(|(_, scope)| !scope.rows.is_empty()).map(|(name, _)| name.clone()).collect()
    }

    pub(super) fn revision(&self, scope: &str) -> u64 {
        self.0.get(scope).map_or(0, |scope| scope.revision)
    }

    pub(super) fn changes(&self, scope: &str, since: u64) -> StateChanges {
        self.0.get(scope).map(|scope| scope.changes(since)).unwrap_or_default()
    }

    pub(super) fn get(&self, scope: &str, key: &str) -> Option<&StateRow> {
        self.0.get(scope)?.get(key)
    }

    pub(super) fn list(&self, query: &StateQuery) -> Vec<StateRow> {
        match query {
            StateQuery::Key { scope, key } => self.get(scope, key).cloned().into_iter().collect(),
            StateQuery::Scope(scope) => self.changes(scope, 0).put,
        }
    }

    pub(super) fn put(&mut self, scope: String, key: String, value: Vec<u8>) -> Option<Vec<u8>> {
        self.0.entry(scope).or_default().put(key, value)
    }

    pub(super) fn delete(&mut self, scope: &str, key: &str) -> Option<Vec<u8>> {
        self.0.get_mut(scope)?.delete(key)
    }
}

/// The values of a scope, by position. A value keeps its position until it is removed.
#[derive(Debug, Default)]
struct Scope {
    revision: u64,
    /// Revision at which a key was last removed.
    removed: u64,
    positions: HashMap<String, u64>,
    /// Values with the revision at which each was put.
    rows: BTreeMap<u64, (u64, StateRow)>,
}

impl Scope {
    fn get(&self, key: &str) -> Option<&StateRow> {
        self.rows.get(self.positions.get(key)?).map(|(_, row)| row)
    }

    fn changes(&self, since: u64) -> StateChanges {
        let put = self.rows.values().filter(|(changed, _)| *changed > since).map(|(_, row)| row.clone());
        let keys = (self.removed > since).then(|| self.positions.keys().cloned().collect());
        StateChanges { revision: self.revision, put: put.collect(), keys }
    }

    fn put(&mut self, key: String, value: Vec<u8>) -> Option<Vec<u8>> {
        self.revision += 1;
        let position = *self.positions.entry(key.clone()).or_insert(self.revision);
        let row = (self.revision, StateRow { key, value });
        self.rows.insert(position, row).map(|(_, row)| row.value)
    }

    fn delete(&mut self, key: &str) -> Option<Vec<u8>> {
        let (_, removed) = self.rows.remove(&self.positions.remove(key)?)?;
        self.revision += 1;
        self.removed = self.revision;
        Some(removed.value)
    }
}
