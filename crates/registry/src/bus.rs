//! What the registry needs of the world: functions that can be called, and values that are kept.

use std::time::Duration;

use meerkat_core::BoxFuture;
use serde_json::Value;

/// What every question to a bus returns.
pub type Reply<'a, T> = BoxFuture<'a, Result<T, BusError>>;

/// Carries calls and keeps values under a scope and a key.
pub trait Bus: Send + Sync {
    /// Calls a function and waits for its answer, at most for `timeout`.
    fn call<'a>(&'a self, function: &'a str, data: Value, timeout: Duration) -> Reply<'a, Value>;

    /// Calls a function whose answer nobody waits for.
    fn send(&self, function: &str, data: Value);

    /// Reads a value.
    fn get<'a>(&'a self, scope: &'a str, key: &'a str) -> Reply<'a, Option<Value>>;

    /// Keeps a value; one that is there is replaced. When it returns, the value is safe.
    fn set<'a>(&'a self, scope: &'a str, key: &'a str, value: Value) -> Reply<'a, ()>;

    /// Removes a value and returns it.
    fn delete<'a>(&'a self, scope: &'a str, key: &'a str) -> Reply<'a, Option<Value>>;

    /// Replaces a value, or removes it, if `allowed` accepts the one that is there. A bus on which others change
    /// values at the same time does it in one step.
    fn exchange<'a>(
        &'a self,
        scope: &'a str,
        key: &'a str,
        value: Option<Value>,
        allowed: &'a (dyn Fn(Option<&Value>) -> bool + Send + Sync),
    ) -> Reply<'a, Exchange> {
        Box::pin(async move {
            let found = self.get(scope, key).await?;
            if !allowed(found.as_ref()) {
                return Ok(Exchange::Denied);
            }
            match value {
                Some(value) => self.set(scope, key, value).await?,
                None => drop(self.delete(scope, key).await?),
            }
            Ok(Exchange::Done(found))
        })
    }

    /// Reads all values of a scope.
    fn list<'a>(&'a self, scope: &'a str) -> Reply<'a, Vec<Value>>;

    /// Says how often a scope was changed, if that is known: what was read at the same revision is still so.
    fn revision<'a>(&'a self, _scope: &'a str) -> BoxFuture<'a, Option<u64>> {
        Box::pin(async { None })
    }

    /// Reads what changed in a scope after a revision, if that is known; after revision 0, all there is.
    fn changes<'a>(&'a self, _scope: &'a str, _since: u64) -> Reply<'a, Option<Changes>> {
        Box::pin(async { Ok(None) })
    }
}

/// The result of [`Bus::exchange`].
#[derive(Debug, Clone, PartialEq)]
pub enum Exchange {
    /// The value was replaced or removed; this was there before.
    Done(Option<Value>),
    /// The value that is there was not accepted, and stays.
    Denied,
}

/// What changed in a scope after some revision.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Changes {
    /// How often the scope was changed by now.
    pub revision: u64,
    /// The values that were put since and are still there, with their keys.
    pub put: Vec<(String, Value)>,
    /// All keys that there are now, if some were removed since.
    pub keys: Option<Vec<String>>,
}

/// Why a bus could not do something.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    /// The function failed, or there is none.
    #[error("remote error ({code}): {message}")]
    Remote {
        /// What kind of error it is.
        code: String,
        /// What happened.
        message: String,
    },
    /// There was no answer in time.
    #[error("invocation timed out")]
    Timeout,
    /// There is nobody who could carry the call.
    #[error("iii is not connected")]
    NotConnected,
    /// What keeps values failed, or the call cannot be made from here.
    #[error("{0}")]
    Failed(Box<dyn std::error::Error + Send + Sync>),
}

impl BusError {
    /// Says whether nobody has the function that was called.
    #[must_use]
    pub fn is_unknown_function(&self) -> bool {
        matches!(self, Self::Remote { code, .. } if code == "function_not_found")
    }
}

/// Takes the values out of the answer of a bus that lists them in one of three shapes: as they are, as `items` with a
/// `value` each, or all in `value`.
#[must_use]
pub fn listed_values(answer: Value) -> Vec<Value> {
    match answer {
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
    fn lists_come_in_three_shapes() {
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
