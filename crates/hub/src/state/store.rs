//! The port through which the hub stores values.

use std::pin::Pin;

/// Error of a store.
pub type StateError = Box<dyn std::error::Error + Send + Sync>;

/// Future of a store's reply.
pub type StateReply<'a, T> = Pin<Box<dyn Future<Output = Result<T, StateError>> + Send + 'a>>;

/// Stores values by scope and key.
///
/// A change is durable when its future completes, and dropping the future does not undo a change that has started.
pub trait StateStore: Send + Sync {
    /// Reads a value.
    fn get<'a>(&'a self, scope: &'a str, key: &'a str) -> StateReply<'a, Option<Vec<u8>>>;

    /// Reads all values of a scope, in the order in which their keys were added.
    fn list<'a>(&'a self, scope: &'a str) -> StateReply<'a, Vec<Vec<u8>>>;

    /// Lists the scopes that have values, by name.
    fn scopes(&self) -> StateReply<'_, Vec<String>>;

    /// Stores values by key, and removes those that are `None`: all of them or none. Returns the value that the last one
    /// replaced.
    fn put<'a>(
        &'a self,
        scope: &'a str,
        values: Vec<(String, Option<Vec<u8>>)>,
    ) -> StateReply<'a, Option<Vec<u8>>>;

    /// Replaces or removes a value if it is still the `expected` one; returns `false` if it has changed. `None` stands
    /// for no value.
    fn replace<'a>(
        &'a self,
        scope: &'a str,
        key: &'a str,
        expected: Option<Vec<u8>>,
        value: Option<Vec<u8>>,
    ) -> StateReply<'a, bool>;
}
