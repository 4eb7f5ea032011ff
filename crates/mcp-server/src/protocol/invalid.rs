//! Texts that are not messages: the reason, and the id of the request if there is one.
//!
//! Clients can send requests that their own JSON library accepts and this one rejects, such as half of a surrogate pair.
//! A client waits for the answer to its id, so the id is also looked for in such texts.

use serde_json::Value;

/// Reason for rejecting a text, with the id for the error response.
#[derive(Debug, PartialEq)]
pub(crate) struct InvalidMessage {
    pub(crate) id: Value,
    pub(crate) code: i32,
    pub(crate) reason: String,
}

impl InvalidMessage {
    /// Reason for rejecting JSON that is not a message.
    pub(crate) const NOT_A_MESSAGE: &str = "not a JSON-RPC 2.0 request or notification";

    /// Explains why a text is not a message.
    pub(crate) fn new(text: &[u8]) -> Self {
        match serde_json::from_slice::<Value>(text) {
            Err(error) => Self { id: find_id(text), code: -32700, reason: format!("not JSON: {error}") },
            Ok(value) => Self {
                id: value.get("id").cloned().unwrap_or_default(),
                code: -32600,
                reason: Self::NOT_A_MESSAGE.to_owned(),
            },
        }
    }
}

/// Finds the id in a complete object whose values need not be valid. Returns null if there is none.
fn find_id(text: &[u8]) -> Value {
    let (mut depth, mut index, mut id) = (0_usize, 0, Value::Null);
    while let Some(byte) = text.get(index) {
        let start = index;
        index += 1;
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                while text.get(index).is_some_and(|byte| *byte != b'"') {
                    index += if text[index] == b'\\' { 2 } else { 1 };
                }
                index = text.len().min(index + 1);
                if depth == 1 && &text[start..index] == b"\"id\"" {
                    id = first_value(text[index..].trim_ascii_start()).unwrap_or(id);
                }
            }
            _ => {}
        }
    }
    if depth == 0 { id } else { Value::Null }
}

/// Returns the string or number after a colon.
fn first_value(rest: &[u8]) -> Option<Value> {
    let value = rest.strip_prefix(b":")?;
    let value: Value = serde_json::Deserializer::from_slice(value).into_iter().next()?.ok()?;
    (value.is_string() || value.is_number()).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::{InvalidMessage, find_id};
    use serde_json::json;

    #[test]
    fn id_is_found_in_texts_that_are_not_json() {
        let deep = format!("{{\"params\":{}{},\"id\":7}}", "[".repeat(5000), "]".repeat(5000));
        for (text, id) in [
            (r#"{"id":7,"params":{"a":"\ud800"}}"#, json!(7)),
            (r#"{"params":{"id":1,"a":1e400},"id" : "b"}"#, json!("b")),
            (r#"{"params":["\"id\":5,",NaN],"id":8}"#, json!(8)),
            (&deep, json!(7)),
            (r#"{"id":"\ud800","params":{}}"#, json!(null)),
            (r#"{"id":{"id":1},"params":NaN}"#, json!(null)),
            (r#"{"params":{"id":1},"x":NaN}"#, json!(null)),
            (r#"[{"id":1,"x":NaN}]"#, json!(null)),
            (r#"{"id":1"#, json!(null)),
            (r#"{"id":"#, json!(null)),
            (r#"{"id""#, json!(null)),
            ("\"\\", json!(null)),
            ("", json!(null)),
        ] {
            let found = InvalidMessage::new(text.as_bytes());
            assert_eq!((found.id, found.code), (id, -32700), "{text}");
        }
        assert_eq!(find_id(b"{\"x\":\"\xff\",\"id\":9}"), json!(9));
    }

    #[test]
    fn id_of_other_json_is_kept() {
        let found = InvalidMessage::new(br#"{"id":{"a":1},"method":5}"#);
        assert_eq!((found.id, found.code), (json!({ "a": 1 }), -32600));
    }
}
