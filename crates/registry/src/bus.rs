//! Interface between the registry and its environment: function calls and stored values.

use std::time::Duration;

use meerkat_core::BoxFuture;
use serde_json::Value;

/// Future returned by the methods of a bus.
pub type Reply<'a, T> = BoxFuture<'a, Result<T, BusError>>;

/// Routes calls, and stores values by scope and key.
pub trait Bus: Send + Sync {
    /// Calls a function and waits up to `timeout` for its response.
    fn call<'a>(&'a self, function: &'a str, data: Value, timeout: Duration) -> Reply<'a, Value>;

    /// Calls a function without waiting for its response.
    fn send(&self, function: &str, data: Value);

    /// Reads a value.
    fn get<'a>(&'a self, scope: &'a str, key: &'a str) -> Reply<'a, Option<Value>>;

    /// Stores a value, replacing any existing one. The value is durable when the future completes.
    fn set<'a>(&'a self, scope: &'a str, key: &'a str, value: Value) -> Reply<'a, ()>;

    /// Removes a value and returns it.
    fn delete<'a>(&'a self, scope: &'a str, key: &'a str) -> Reply<'a, Option<Value>>;

    /// Replaces or removes a value if `allowed` accepts the current one. A bus with concurrent writers must do this
    /// atomically.
    fn exchange<'a>(
        &'a self,
        scope: &'a str,
        key: &'a str,
        value: Option<Value>,
        allowed: &'a (dyn Fn(Option<&Value>) -> bool + Send + Sync),
    ) -> Reply<'a, Exchange> {
        Box::pin(async move {
            let current = self.get(scope, key).await?;
            if !allowed(current.as_ref()) {
                return Ok(Exchange::Denied);
            }
            match value {
                Some(value) => self.set(scope, key, value).await?,
                None => drop(self.delete(scope, key).await?),
            }
            Ok(Exchange::Done(current))
        })
    }

    /// Reads all values of a scope.
    fn list<'a>(&'a self, scope: &'a str) -> Reply<'a, Vec<Value>>;

    /// Returns the number of changes to a scope, if known: values read at the same revision are still current.
    fn revision<'a>(&'a self, _scope: &'a str) -> BoxFuture<'a, Option<u64>> {
        Box::pin(async { None })
    }

    /// Reads the changes to a scope after a revision, if known; for revision 0, reads all values.
    fn changes<'a>(&'a self, _scope: &'a str, _since: u64) -> Reply<'a, Option<Changes>> {
        Box::pin(async { Ok(None) })
    }
}

/// The result of [`Bus::exchange`].
#[derive(Debug, Clone, PartialEq)]
pub enum Exchange {
    /// The value was replaced or removed; contains the previous value.
    Done(Option<Value>),
    /// The current value was not accepted and remains unchanged.
    Denied,
}

/// Changes to a scope after a revision.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Changes {
    /// Current revision of the scope.
    pub revision: u64,
    /// Values added or replaced since then and not removed, with their keys.
    pub put: Vec<(String, Value)>,
    /// All current keys, if some were removed since then.
    pub keys: Option<Vec<String>>,
}

/// Error of a bus operation.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    /// The function failed or does not exist.
    #[error("remote error ({code}): {message}")]
    Remote {
        /// Error code.
        code: String,
        /// Error message.
        message: String,
    },
    /// The call timed out.
    #[error("invocation timed out")]
    Timeout,
    /// The bus is not connected.
    #[error("iii is not connected")]
    NotConnected,
    /// The storage failed, or this process cannot make the call.
    #[error("{0}")]
    Failed(Box<dyn std::error::Error + Send + Sync>),
}

impl BusError {
    /// Returns `true` if no worker provides the called function.
    #[must_use]
    pub fn is_unknown_function(&self) -> bool {
        matches!(self, Self::Remote { code, .. } if code == "function_not_found")
    }
}

/// Extracts the values from a bus's list response, which has one of three formats: an array of values, `items` with a
/// `value` each, or an array in `value`.
#[must_use]
pub fn listed_values(response: Value) -> Vec<Value> {
    match response {
        Value::Array(values) => values,
        Value::Object(mut object) => match (object.remove("items"), object.remove("value")) {
            (Some(Value::Array(items)), _) => items.into_iter().filter_map(value_of).collect(),
            (_, Some(Value::Array(values))) => values,
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

fn value_of(item: Value) -> Option<Value> {
    match item {
        Value::Object(mut item) => item.remove("value"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_three_list_formats_are_accepted() {
        let values = vec![json!({ "id": "a" }), json!(null)];
        assert_eq!(listed_values(json!([{ "id": "a" }, null])), values);
        assert_eq!(
            listed_values(json!({ "items": [{ "value": { "id": "a" } }, { "value": null }, 3] })),
            values
        );
        assert_eq!(listed_values(json!({ "value": [{ "id": "a" }, null] })), values);
        for other in [json!(null), json!({}), json!({ "items": 3 }), json!("x")] {
            assert_eq!(listed_values(other), Vec::<Value>::new());
        }
    }
}
