//! Decoding of JSON values into types. An error names the location, says in plain words what was expected, and quotes
//! only the start of what was found.

use serde::Deserializer;
use serde::de::DeserializeOwned;

use crate::printable::{excerpt, excerpt_message};

/// Decodes a value, such as a JSON value or a reference to one.
///
/// # Errors
/// Returns what is wrong and where.
pub fn decode<'a, T: DeserializeOwned>(value: impl Deserializer<'a>) -> Result<T, String> {
    serde_path_to_error::deserialize(value)
        .map_err(|error| at_path(&error.path().to_string(), &plain_error(&error.inner().to_string())))
}

/// Prefixes an error message with its path, unless the path is the document itself.
#[must_use]
pub fn at_path(path: &str, message: &str) -> String {
    if path == "." { message.to_owned() } else { format!("`{}`: {message}", excerpt(path)) }
}

/// Rewrites an error message of serde: it names types as JSON does, and quotes only the start of a value.
#[must_use]
pub fn plain_error(message: &str) -> String {
    // The value comes first and may contain the separator; the type never does.
    if let Some((problem, expected)) = message.rsplit_once(", expected ") {
        for start in ["invalid type: ", "invalid value: "] {
            if let Some(found) = problem.strip_prefix(start) {
                return format!("{start}{}, expected {}", plain_value(found), plain_type(expected));
            }
        }
        if problem.starts_with("invalid length ") {
            return format!("invalid type: a list, expected {}", plain_type(expected));
        }
    }
    for start in ["unknown variant `", "unknown field `"] {
        let name_and_rest = message.strip_prefix(start).and_then(|rest| {
            rest.rsplit_once("`, expected ").or_else(|| rest.rsplit_once("`, there are no "))
        });
        if let Some((name, _)) = name_and_rest {
            return format!("{start}{}{}", excerpt(name), &message[start.len() + name.len()..]);
        }
    }
    excerpt_message(message)
}

/// Describes a value that serde found.
fn plain_value(found: &str) -> String {
    let quoted = |kind: &str, quote: char| {
        let text = found.strip_prefix(kind)?.strip_prefix([' '])?.strip_prefix(quote)?.strip_suffix(quote)?;
        Some(format!("{quote}{}{quote}", excerpt(text)))
    };
    match found {
        "sequence" => "a list".to_owned(),
        "map" => "an object".to_owned(),
        "unit value" => "null".to_owned(),
        _ => (quoted("string", '"').map(|text| format!("string {text}")))
            .or_else(|| quoted("floating point", '`').map(|number| format!("number {number}")))
            .unwrap_or_else(|| excerpt(found)),
    }
}

/// Describes a type that serde expected.
fn plain_type(expected: &str) -> String {
    let is_one_of = |starts: &[&str]| starts.iter().any(|start| expected.starts_with(start));
    let plain = match expected {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number from 0",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "string or map"
        | "map with a single key"
        | "variant identifier"
        | "field identifier"
        | "path string" => "a string",
        "unit" => "null",
        _ if is_one_of(&["unit ", "newtype variant"]) => "a string",
        _ if is_one_of(&["struct ", "internally tagged", "adjacently tagged"]) => "an object",
        "a map" => "an object",
        _ if is_one_of(&["a sequence", "a tuple", "tuple ", "an array"]) => "a list",
        other => other,
    };
    plain.to_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde_json::{Value, json};

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only decoded")]
    struct Everything {
        #[serde(default)]
        name: String,
        #[serde(default)]
        count: u32,
        #[serde(default)]
        size: u64,
        #[serde(default)]
        offset: i32,
        #[serde(default)]
        ratio: f64,
        #[serde(default)]
        list: Vec<bool>,
        #[serde(default)]
        labels: BTreeMap<String, String>,
        kind: Option<Kind>,
        block: Option<Block>,
        inner: Option<Box<Self>>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Kind {
        Plain,
        Fancy,
    }

    #[derive(Debug, Deserialize)]
    #[serde(tag = "type", rename_all = "snake_case")]
    #[expect(dead_code, reason = "only decoded")]
    enum Block {
        Text { text: String },
    }

    fn error(value: Value) -> String {
        decode::<Everything>(value).unwrap_err()
    }

    #[test]
    fn errors_name_json_types() {
        let cases = [
            (json!(null), "invalid type: null, expected an object"),
            (json!([1, 2]), "`[0]`: invalid type: integer `1`, expected a string"),
            (json!({"name": {}}), "`name`: invalid type: an object, expected a string"),
            (
                json!({"count": -1}),
                "`count`: invalid value: integer `-1`, expected a whole number from 0 to 4294967295",
            ),
            (json!({"size": "x"}), "`size`: invalid type: string \"x\", expected a whole number from 0"),
            (json!({"offset": 1.5}), "`offset`: invalid type: number `1.5`, expected a whole number"),
            (json!({"ratio": []}), "`ratio`: invalid type: a list, expected a number"),
            (json!({"list": true}), "`list`: invalid type: boolean `true`, expected a list"),
            (json!({"labels": 1}), "`labels`: invalid type: integer `1`, expected an object"),
            (json!({"kind": 7}), "`kind`: invalid type: integer `7`, expected a string"),
            (json!({"kind": {}}), "`kind`: invalid value: an object, expected a string"),
            (json!({"kind": {"plain": 1}}), "`kind.plain`: invalid type: integer `1`, expected null"),
            (json!({"kind": "odd"}), "`kind`: unknown variant `odd`, expected `plain` or `fancy`"),
            (json!({"block": 7}), "`block`: invalid type: integer `7`, expected an object"),
            (json!({"block": {"type": 7}}), "`block.type`: invalid type: integer `7`, expected a string"),
            (json!({"inner": {"inner": 1}}), "`inner.inner`: invalid type: integer `1`, expected an object"),
        ];
        for (value, message) in cases {
            assert_eq!(error(value.clone()), message, "{value}");
        }
    }

    #[test]
    fn errors_quote_only_the_start() {
        let long = "\u{1b}, expected u64".repeat(20_000);
        let values = [
            json!({"count": long}),
            json!({"kind": long}),
            json!({"labels": {&long: 1}}),
            json!({&long: 1}),
            json!({"block": {"type": long}}),
        ];
        for value in values {
            let message = error(value);
            assert!(message.chars().count() < 1200, "{} bytes", message.len());
            assert!(!message.contains('\u{1b}') && !message.ends_with("u64"), "{message}");
        }
    }
}
