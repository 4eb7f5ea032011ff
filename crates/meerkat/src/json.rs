//! Decoding of JSON values, with the path of the error.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Decodes a value. The error says what is wrong and where.
pub(crate) fn decode<T: DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_path_to_error::deserialize(value)
        .map_err(|error| at_path(&error.path().to_string(), &error.inner().to_string()))
}

/// Prefixes an error message with its path, unless the path is the document itself.
pub(crate) fn at_path(path: &str, message: &str) -> String {
    if path == "." { message.to_owned() } else { format!("`{path}`: {message}") }
}
