//! A store in memory that can be made to fail.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use meerkat_hub::{StateReply, StateStore};

/// A store that rejects changes while it is broken.
#[derive(Default)]
pub(crate) struct MemoryStore {
    scopes: Mutex<BTreeMap<String, Scope>>,
    pub(crate) is_broken: AtomicBool,
}

/// Keys and values, in the order in which the keys were added.
#[derive(Default)]
struct Scope(Vec<(String, Vec<u8>)>);

impl Scope {
    fn get(&self, key: &str) -> Option<Vec<u8>> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| value.clone())
    }

    /// Stores or removes a value; returns the previous one.
    fn change(&mut self, key: &str, value: Option<Vec<u8>>) -> Option<Vec<u8>> {
        let position = self.0.iter().position(|(known, _)| known == key);
        match (position, value) {
            (Some(at), Some(value)) => Some(std::mem::replace(&mut self.0[at].1, value)),
            (Some(at), None) => Some(self.0.remove(at).1),
            (None, Some(value)) => {
                self.0.push((key.to_owned(), value));
                None
            }
            (None, None) => None,
        }
    }
}

impl MemoryStore {
    fn scopes(&self) -> MutexGuard<'_, BTreeMap<String, Scope>> {
        self.scopes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T: Send + 'static>(
        &self,
        scope: &str,
        change: impl FnOnce(&mut Scope) -> T,
    ) -> StateReply<'static, T> {
        if self.is_broken.load(Ordering::SeqCst) {
            return Box::pin(async { Err("the store is broken".into()) });
        }
        let mut scopes = self.scopes();
        let result = change(scopes.entry(scope.to_owned()).or_default());
        scopes.retain(|_, scope| !scope.0.is_empty());
        Box::pin(async { Ok(result) })
    }
}

impl StateStore for MemoryStore {
    fn get<'a>(&'a self, scope: &'a str, key: &'a str) -> StateReply<'a, Option<Vec<u8>>> {
        let value = self.scopes().get(scope).and_then(|scope| scope.get(key));
        Box::pin(async { Ok(value) })
    }

    fn list<'a>(&'a self, scope: &'a str) -> StateReply<'a, Vec<Vec<u8>>> {
        let scopes = self.scopes();
        let entries = scopes.get(scope).into_iter().flat_map(|scope| &scope.0);
        let values = entries.map(|(_, value)| value.clone()).collect();
        Box::pin(async { Ok(values) })
    }

    fn scopes(&self) -> StateReply<'_, Vec<String>> {
        let names = self.scopes().keys().cloned().collect();
        Box::pin(async { Ok(names) })
    }

    fn put<'a>(
        &'a self,
        scope: &'a str,
        values: Vec<(String, Option<Vec<u8>>)>,
    ) -> StateReply<'a, Option<Vec<u8>>> {
        self.change(scope, |scope| values.into_iter().fold(None, |_, (key, value)| scope.change(&key, value)))
    }

    fn replace<'a>(
        &'a self,
        scope: &'a str,
        key: &'a str,
        expected: Option<Vec<u8>>,
        value: Option<Vec<u8>>,
    ) -> StateReply<'a, bool> {
        self.change(scope, |scope| {
            let is_expected = scope.get(key) == expected;
            if is_expected {
                scope.change(key, value);
            }
            is_expected
        })
    }
}
