//! Conversion of handler responses to sections and prompt messages.

use serde_json::{Value, json};

use crate::Error;

const MARKDOWN: &str = "text/markdown";
const JSON: &str = "application/json";

/// Returns the MIME type and text of a section.
pub(crate) fn section(response: Value) -> (&'static str, String) {
    match content_of(response) {
        Ok(text) => (MARKDOWN, text),
        Err(other) => (JSON, pretty(&other)),
    }
}

/// Returns the messages of a prompt.
pub(crate) fn messages(response: Value) -> Result<Value, Error> {
    if let Some(messages) = response.get("messages").filter(|messages| messages.is_array()) {
        return Ok(messages.clone());
    }
    let text = content_of(response).map_err(|_| Error::Shape)?;
    Ok(json!([{ "role": "user", "content": { "type": "text", "text": text } }]))
}

/// Extracts a string, or the string in `content`, from a response; returns the response unchanged if it has neither.
fn content_of(response: Value) -> Result<String, Value> {
    match response {
        Value::String(text) => Ok(text),
        Value::Object(mut object) => match object.get_mut("content") {
            Some(Value::String(text)) => Ok(std::mem::take(text)),
            _ => Err(Value::Object(object)),
        },
        other => Err(other),
    }
}

/// Formats a value for people; serialization of a `Value` cannot fail.
fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn section_is_text_or_formatted_json() {
        for (response, kind, text) in [
            (json!("# Hi"), MARKDOWN, "# Hi"),
            (json!(""), MARKDOWN, ""),
            (json!({ "content": "# Hi", "more": 1 }), MARKDOWN, "# Hi"),
            (json!(null), JSON, "null"),
            (json!({ "content": 123 }), JSON, "{\n  \"content\": 123\n}"),
            (json!(["ä", 1]), JSON, "[\n  \"ä\",\n  1\n]"),
            (json!(true), JSON, "true"),
        ] {
            assert_eq!(section(response), (kind, text.to_owned()));
        }
    }

    #[test]
    fn prompt_is_text_or_messages() {
        let user = |text: &str| json!([{ "role": "user", "content": { "type": "text", "text": text } }]);
        assert_eq!(messages(json!("Hi")).unwrap(), user("Hi"));
        assert_eq!(messages(json!({ "content": "Hi" })).unwrap(), user("Hi"));
        let both = json!({ "content": "no", "messages": [{ "role": "assistant", "any": 1 }] });
        assert_eq!(messages(both).unwrap(), json!([{ "role": "assistant", "any": 1 }]));
        assert_eq!(messages(json!({ "content": "yes", "messages": "no" })).unwrap(), user("yes"));
        for other in [json!(null), json!(1), json!([]), json!({}), json!({ "content": 1 })] {
            let error = messages(other).unwrap_err().to_string();
            assert_eq!(
                error,
                "prompt handler returned unsupported shape; expected string, { content }, or { messages: [...] }"
            );
        }
    }
}
