//! Texts that are not messages: the reason, and the ids of their requests.
//!
//! Clients can send requests that their own JSON library accepts and this one rejects, such as half of a surrogate pair.
//! A client waits for the answer to its id, so ids are also looked for in such texts.

use serde_json::{Value, json};

use super::batch;

/// Maximum number of nested arrays and objects in a message: a limit of the JSON parser, because deeper values could
/// overflow the stack.
pub(crate) const MAX_DEPTH: usize = 127;
/// Maximum length of an id that is looked for.
const MAX_ID: usize = 64 * 1024;

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
            Err(error) => {
                let id = IdScanner::scan(text).into_id();
                Self { id, code: -32700, reason: not_json(&error.to_string()) }
            }
            Ok(value) => Self {
                id: value.get("id").cloned().unwrap_or_default(),
                code: -32600,
                reason: Self::NOT_A_MESSAGE.to_owned(),
            },
        }
    }
}

/// Converts an error of the JSON parser to the reason for rejecting a text.
pub(crate) fn not_json(problem: &str) -> String {
    match problem.starts_with("recursion limit exceeded") {
        true => format!("nested too deeply: the recursion limit is {MAX_DEPTH} arrays and objects"),
        false => format!("not JSON: {problem}"),
    }
}

/// Finds the ids of a request, or of the requests of a batch, in a text whose values need not be valid.
#[derive(Default)]
pub(crate) struct IdScanner {
    depth: usize,
    /// Depth of the requests' fields; 0 before the first value.
    level: usize,
    string: StringState,
    /// Text of the current field's name or value.
    field: Vec<u8>,
    is_id: bool,
    /// Id of the current request.
    id: Option<Value>,
    ids: Vec<Value>,
}

/// Position of the scanner relative to strings.
#[derive(Default, Clone, Copy, PartialEq)]
enum StringState {
    #[default]
    Outside,
    Inside,
    Escape,
}

impl IdScanner {
    /// Scans a text.
    pub(crate) fn scan(text: &[u8]) -> Self {
        let mut scanner = Self::default();
        scanner.push(text);
        scanner
    }

    /// Scans the next part of a text.
    pub(crate) fn push(&mut self, part: &[u8]) {
        part.iter().for_each(|byte| self.byte(*byte));
    }

    fn byte(&mut self, byte: u8) {
        let is_field = self.level > 0 && self.depth == self.level;
        match (self.string, byte) {
            (StringState::Inside, b'\\') => self.string = StringState::Escape,
            (StringState::Inside, b'"') => self.string = StringState::Outside,
            (StringState::Inside, _) => {}
            (StringState::Escape, _) => self.string = StringState::Inside,
            (StringState::Outside, b'"') => self.string = StringState::Inside,
            (StringState::Outside, b'{' | b'[') => {
                if self.level == 0 {
                    self.level = if byte == b'[' { 2 } else { 1 };
                }
                self.depth += 1;
                if self.depth == self.level {
                    self.field.clear();
                }
            }
            (StringState::Outside, b':') if is_field => {
                self.is_id = self.field.trim_ascii() == b"\"id\"";
                return self.field.clear();
            }
            (StringState::Outside, b',') if is_field => return self.end_field(),
            (StringState::Outside, b'}' | b']') => {
                self.depth = self.depth.saturating_sub(1);
                if is_field {
                    self.end_field();
                    // More ids than a batch may have are not needed.
                    let id = self.id.take().filter(|_| self.ids.len() <= batch::MAX_MESSAGES);
                    self.ids.extend(id);
                }
            }
            (StringState::Outside, _) => {}
        }
        if is_field && self.field.len() < MAX_ID {
            self.field.push(byte);
        }
    }

    fn end_field(&mut self) {
        let value =
            std::mem::take(&mut self.is_id).then(|| serde_json::from_slice::<Value>(&self.field).ok());
        let is_valid = |value: &Value| value.is_string() || value.is_number();
        self.id = value.flatten().filter(is_valid).or_else(|| self.id.take());
        self.field.clear();
    }

    /// Returns the id of a complete request, or null.
    fn into_id(mut self) -> Value {
        let is_request = self.level == 1 && self.depth == 0;
        self.ids.pop().filter(|_| is_request).unwrap_or_default()
    }

    /// Returns the error response to a text: to its request, or to each request of its batch.
    pub(crate) fn response(self, code: i32, reason: &str) -> Value {
        let error = json!({ "code": code, "message": reason });
        let response = |id: Value| json!({ "jsonrpc": "2.0", "id": id, "error": error });
        let is_batch = self.level == 2 && self.depth == 0;
        match self.ids.len() {
            1..=batch::MAX_MESSAGES if is_batch => self.ids.into_iter().map(response).collect(),
            _ => response(self.into_id()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{IdScanner, InvalidMessage, MAX_DEPTH};
    use crate::protocol::batch::MAX_MESSAGES;
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
        assert_eq!(IdScanner::scan(b"{\"x\":\"\xff\",\"id\":9}").into_id(), json!(9));
    }

    #[test]
    fn every_request_of_a_batch_is_answered() {
        let answered = |text: &str| {
            let mut scanner = IdScanner::default();
            text.as_bytes().chunks(3).for_each(|part| scanner.push(part));
            let response = scanner.response(-32700, "no");
            match response.as_array() {
                Some(responses) => responses.iter().map(|response| response["id"].clone()).collect(),
                None => response["id"].clone(),
            }
        };
        let one = r#"{"id":1,"params":{"id":5,"x":["\ud800"]}}"#;
        assert_eq!(answered(one), json!(1));
        assert_eq!(
            answered(&format!(" [{one}, {{\"method\":\"n\"}}, 7, {{\"id\" : \"b\"}}]")),
            json!([1, "b"])
        );
        assert_eq!(answered(&format!("[{one}")), json!(null));
        assert_eq!(answered("[{\"id\":{\"id\":1}},{\"id\":null},[\"id\",1]]"), json!(null));
        let many = |count| format!("[{}]", vec![one; count].join(","));
        assert_eq!(answered(&many(MAX_MESSAGES)).as_array().map(Vec::len), Some(MAX_MESSAGES));
        assert_eq!(answered(&many(MAX_MESSAGES + 1)), json!(null));
    }

    #[test]
    fn depth_is_limited_and_named() {
        let nested = |depth| format!("{{\"id\":7,\"params\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        let at_limit = InvalidMessage::new(nested(MAX_DEPTH - 1).as_bytes());
        assert_eq!((at_limit.id, at_limit.code), (json!(7), -32600));
        let over = InvalidMessage::new(nested(MAX_DEPTH).as_bytes());
        assert_eq!((over.id, over.code), (json!(7), -32700));
        assert_eq!(over.reason, "nested too deeply: the recursion limit is 127 arrays and objects");
    }

    #[test]
    fn id_of_other_json_is_kept() {
        let found = InvalidMessage::new(br#"{"id":{"a":1},"method":5}"#);
        assert_eq!((found.id, found.code), (json!({ "a": 1 }), -32600));
    }
}
