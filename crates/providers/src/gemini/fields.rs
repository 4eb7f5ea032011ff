//! Access to the fields of a chunk: absent and null are equivalent, any other wrong type is an error.

use meerkat_core::{ModelError, ModelErrorKind, Provider};
use serde_json::{Map, Value};

use crate::wire::error;

/// Creates an error for a chunk that violates the format.
pub(super) fn malformed(message: &str) -> ModelError {
    error(Provider::Gemini, ModelErrorKind::Malformed, message)
}

/// Returns a field that is present and not null.
fn field<'a>(object: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    object.get(key).filter(|value| !value.is_null())
}

fn wrong(key: &str, expected: &str) -> ModelError {
    malformed(&format!("`{key}` is not {expected}"))
}

/// Returns a string.
pub(super) fn text<'a>(object: &'a Map<String, Value>, key: &str) -> Result<Option<&'a str>, ModelError> {
    field(object, key).map(|value| value.as_str().ok_or_else(|| wrong(key, "a string"))).transpose()
}

/// Returns a count.
pub(super) fn count(object: &Map<String, Value>, key: &str) -> Result<Option<u64>, ModelError> {
    field(object, key).map(|value| value.as_u64().ok_or_else(|| wrong(key, "a count"))).transpose()
}

/// Returns a flag, false by default.
pub(super) fn flag(object: &Map<String, Value>, key: &str) -> Result<bool, ModelError> {
    field(object, key).map_or(Ok(false), |value| value.as_bool().ok_or_else(|| wrong(key, "true or false")))
}

/// Returns an object.
pub(super) fn object<'a>(
    object: &'a Map<String, Value>,
    key: &str,
) -> Result<Option<&'a Map<String, Value>>, ModelError> {
    field(object, key).map(|value| value.as_object().ok_or_else(|| wrong(key, "an object"))).transpose()
}

/// Returns a list, empty by default.
pub(super) fn list<'a>(object: &'a Map<String, Value>, key: &str) -> Result<&'a [Value], ModelError> {
    field(object, key)
        .map_or(Ok(&[]), |value| value.as_array().map(Vec::as_slice).ok_or_else(|| wrong(key, "a list")))
}
