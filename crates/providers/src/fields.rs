//! Access to the fields of JSON objects: absent and null are equivalent, any other wrong type is an error.

use serde_json::Value;

use crate::wire::Failure;

/// Returns a field that is present and not null.
pub(crate) fn present<'a>(object: &'a Value, key: &str) -> Option<&'a Value> {
    object.get(key).filter(|value| !value.is_null())
}

/// Returns a field of a type, which is named if the field has another one.
pub(crate) fn typed<'a, T>(
    object: &'a Value,
    key: &str,
    expected: &str,
    read: impl FnOnce(&'a Value) -> Option<T>,
) -> Result<Option<T>, Failure> {
    let wrong = || format!("`{key}` is not {expected}").into();
    present(object, key).map(|value| read(value).ok_or_else(wrong)).transpose()
}

/// Returns a string.
pub(crate) fn text<'a>(object: &'a Value, key: &str) -> Result<Option<&'a str>, Failure> {
    typed(object, key, "a string", Value::as_str)
}

/// Returns an object.
pub(crate) fn object<'a>(object: &'a Value, key: &str) -> Result<Option<&'a Value>, Failure> {
    typed(object, key, "an object", |value| value.is_object().then_some(value))
}

/// Returns a list, empty by default.
pub(crate) fn list<'a>(object: &'a Value, key: &str) -> Result<&'a [Value], Failure> {
    Ok(typed(object, key, "a list", Value::as_array)?.map_or(&[], Vec::as_slice))
}
