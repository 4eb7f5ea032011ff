//! Encoding of messages.

use std::borrow::Cow;

use uuid::Uuid;

/// A JSON object that is written field by field, with payloads inserted verbatim.
#[derive(Debug)]
pub(crate) struct Object(String);

impl Object {
    /// Starts a message of this type.
    pub(crate) fn message(kind: &str) -> Self {
        let mut object = Self(String::with_capacity(256));
        object.0.push('{');
        object.text("type", kind)
    }

    /// Starts an object.
    pub(crate) fn new() -> Self {
        Self(String::from("{"))
    }

    /// Adds a string.
    pub(crate) fn text(mut self, name: &str, value: &str) -> Self {
        self.name(name);
        if value.bytes().any(|byte| byte < b' ' || byte == b'"' || byte == b'\\') {
            self.0.push_str(&serde_json::Value::from(value).to_string());
        } else {
            self.0.extend(["\"", value, "\""]);
        }
        self
    }

    /// Adds an id.
    pub(crate) fn id(self, name: &str, id: Uuid) -> Self {
        self.text(name, id.hyphenated().encode_lower(&mut Uuid::encode_buffer()))
    }

    /// Adds a string, if it is present.
    pub(crate) fn maybe_text(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.text(name, value),
            None => self,
        }
    }

    /// Adds JSON. Names are our own and need no escaping.
    pub(crate) fn raw(mut self, name: &str, json: &str) -> Self {
        self.name(name);
        self.0.push_str(json);
        self
    }

    fn name(&mut self, name: &str) {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        self.0.extend(["\"", name, "\":"]);
    }

    /// Adds JSON, if it is present.
    pub(crate) fn maybe_raw(self, name: &str, json: Option<&str>) -> Self {
        match json {
            Some(json) => self.raw(name, json),
            None => self,
        }
    }

    /// Finishes the object.
    pub(crate) fn end(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

/// Payload field with the id of the calling worker.
pub(crate) const CALLER: &str = "_caller_worker_id";

/// Returns the payload with the caller's id inserted if it is an object, otherwise unchanged.
///
/// An id that the caller set itself is replaced.
pub(crate) fn with_caller(data: &str, caller: Uuid) -> Cow<'_, str> {
    let Some(inner) = data.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) else {
        return Cow::Borrowed(data);
    };
    if inner.contains(CALLER) {
        return Cow::Owned(with_caller_replaced(data, caller));
    }
    // The last of two equal keys wins, so an escaped spelling of the key in the payload cannot override the caller.
    let comma = if inner.trim().is_empty() { "" } else { "," };
    Cow::Owned(format!("{{{inner}{comma}\"{CALLER}\":\"{caller}\"}}"))
}

fn with_caller_replaced(data: &str, caller: Uuid) -> String {
    match serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(data) {
        Ok(mut map) => {
            map.insert(CALLER.to_owned(), caller.to_string().into());
            serde_json::Value::Object(map).to_string()
        }
        Err(_) => data.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caller_id_is_inserted_into_objects_only() {
        let id = Uuid::from_u128(7);
        let mark = format!("\"_caller_worker_id\":\"{id}\"");
        let cases = [
            ("{}", format!("{{{mark}}}")),
            (" { } ", format!("{{ {mark}}}")),
            (r#"{"x":1}"#, format!(r#"{{"x":1,{mark}}}"#)),
            (r#"{"_caller_worker_id":"mine","x":1}"#, format!(r#"{{{mark},"x":1}}"#)),
            ("[1]", "[1]".to_owned()),
            ("null", "null".to_owned()),
            ("\"{}\"", "\"{}\"".to_owned()),
        ];
        for (data, expected) in cases {
            assert_eq!(with_caller(data, id), expected, "{data}");
        }
    }
}
