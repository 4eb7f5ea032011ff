//! What handlers answer, made into what readers get.

use serde_json::{Value, json};

use crate::Error;

const MARKDOWN: &str = "text/markdown";
const JSON: &str = "application/json";

/// Makes the text of a section, and says what kind of text it is.
pub(crate) fn section(answer: Value) -> (&'static str, String) {
    match content_of(answer) {
        Ok(text) => (MARKDOWN, text),
        Err(other) => (JSON, pretty(&other)),
    }
}

/// Makes the messages of a prompt.
pub(crate) fn messages(answer: Value) -> Result<Value, Error> {
    if let Some(messages) = answer.get("messages").filter(|messages| messages.is_array()) {
        return Ok(messages.clone());
    }
    let text = content_of(answer).map_err(|_| Error::Shape)?;
    Ok(json!([{ "role": "user", "content": { "type": "text", "text": text } }]))
}

/// Takes a text, or the text under `content`, out of an answer; gives the answer back if there is none.
fn content_of(answer: Value) -> Result<String, Value> {
    match answer {
        Value::String(text) => Ok(text),
        Value::Object(mut object) => match object.get_mut("content") {
            Some(Value::String(text)) => Ok(std::mem::take(text)),
            _ => Err(Value::Object(object)),
        },
        other => Err(other),
    }
}

/// Writes a value for people; a value can always be written.
fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_text_or_written_out() {
        for (answer, kind, text) in [
            (json!("# Hi"), MARKDOWN, "# Hi"),
            (json!(""), MARKDOWN, ""),
            (json!({ "content": "# Hi", "more": 1 }), MARKDOWN, "# Hi"),
            (json!(null), JSON, "null"),
            (json!({ "content": 123 }), JSON, "{\n  \"content\": 123\n}"),
            (json!(["ä", 1]), JSON, "[\n  \"ä\",\n  1\n]"),
            (json!(true), JSON, "true"),
        ] {
            assert_eq!(section(answer), (kind, text.to_owned()));
        }
    }

    #[test]
    fn a_prompt_is_text_or_messages() {
        let user = |text: &str| json!([{ "role": "user", "content": { "type": "text", "text": text } }]);
        assert_eq!(messages(json!("Hi")).unwrap(), user("Hi"));
        assert_eq!(messages(json!({ "content": "Hi" })).unwrap(), user("Hi"));
        let both = json!({ "content": "no", "messages": [{ "role": "assistant", "any": 1 }] });
        assert_eq!(messages(both).unwrap(), json!([{ "role": "assistant", "any": 1 }]));
        assert_eq!(messages(json!({ "content": "yes", "messages": "no" })).unwrap(), user("yes"));
        for other in [json!(null), json!(1), json!([]), json!({}), json!({ "content": 1 })] {
            let told = messages(other).unwrap_err().to_string();
            assert_eq!(
                told,
                "prompt handler returned unsupported shape; expected string, { content }, or { messages: [...] }"
            );
        }
    }
}
