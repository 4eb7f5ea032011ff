//! Output schemas as passed by callers: a raw JSON Schema, or a wrapper around one.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A schema for the structured output of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutputSchema {
    /// The JSON Schema as its author wrote it.
    pub schema: Value,
    /// Name of the schema.
    pub name: Option<String>,
    /// Whether the provider should enforce the schema strictly.
    pub strict: bool,
    /// Handling of keywords that a provider does not support.
    pub compat: SchemaCompat,
}

/// Handling of keywords that a provider does not support.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SchemaCompat {
    /// Drop them with a warning.
    #[default]
    Lossy,
    /// Fail.
    Strict,
}

/// Error from parsing an output schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// The schema is not an object.
    #[error("`output_schema` must be a JSON object, not {0}")]
    NotObject(&'static str),
    /// A wrapper key has the wrong type or value.
    #[error("`output_schema.{0}` must be {1}")]
    Wrapper(&'static str, &'static str),
}

const WRAPPER_KEYS: [&str; 5] = ["schema", "name", "strict", "compat", "format"];
const FORMAT: &str = "meerkat_v1";

impl OutputSchema {
    /// Parses a schema or its wrapper.
    ///
    /// The value is a wrapper if it has the key `schema` and either has `format: "meerkat_v1"` or no other
    /// keys than those of a wrapper.
    ///
    /// # Errors
    /// Returns an error if a part has the wrong type.
    pub fn parse(value: Value) -> Result<Self, SchemaError> {
        let Value::Object(mut object) = value else {
            return Err(SchemaError::NotObject(type_name(&value)));
        };
        if !is_wrapper(&object) {
            return Ok(Self {
                schema: Value::Object(object),
                name: None,
                strict: false,
                compat: SchemaCompat::Lossy,
            });
        }
        let Some(schema @ Value::Object(_)) = object.remove("schema") else {
            return Err(SchemaError::Wrapper("schema", "a JSON object"));
        };
        let name = optional(&mut object, "name", "a string", |value| value.as_str().map(str::to_owned))?;
        let strict = optional(&mut object, "strict", "true or false", Value::as_bool)?;
        let compat =
            optional(&mut object, "compat", "`lossy` or `strict`", |value| match value.as_str()? {
                "lossy" => Some(SchemaCompat::Lossy),
                "strict" => Some(SchemaCompat::Strict),
                _ => None,
            })?;
        Ok(Self { schema, name, strict: strict.unwrap_or(false), compat: compat.unwrap_or_default() })
    }
}

fn optional<T>(
    object: &mut Map<String, Value>,
    key: &'static str,
    expected: &'static str,
    read: impl FnOnce(&Value) -> Option<T>,
) -> Result<Option<T>, SchemaError> {
    match object.remove(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => read(&value).map(Some).ok_or(SchemaError::Wrapper(key, expected)),
    }
}

fn is_wrapper(object: &Map<String, Value>) -> bool {
    object.contains_key("schema")
        && (object.get("format").and_then(Value::as_str) == Some(FORMAT)
            || object.keys().all(|key| WRAPPER_KEYS.contains(&key.as_str())))
}

const fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn wrappers_and_raw_schemas_are_distinguished() {
        let raw = || json!({"type": "object"});
        let own_key = || json!({"type": "object", "schema": {"type": "string"}});
        let cases = [
            (raw(), raw()),
            (json!({"schema": raw()}), raw()),
            (json!({"schema": raw(), "name": "n", "strict": true, "compat": "strict"}), raw()),
            (json!({"schema": raw(), "format": "meerkat_v1", "extra": 1}), raw()),
            (own_key(), own_key()),
            (json!({}), json!({})),
        ];
        for (input, schema) in cases {
            assert_eq!(OutputSchema::parse(input.clone()).map(|s| s.schema), Ok(schema), "{input}");
        }
        for bad in [json!("x"), json!([1]), json!({"schema": 1}), json!({"schema": {}, "compat": "odd"})] {
            assert!(OutputSchema::parse(bad.clone()).is_err(), "{bad}");
        }
    }
}
