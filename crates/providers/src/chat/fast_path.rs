//! Fast path for chunks that extend the text, reasoning, or arguments of a call: nearly all of a stream.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::fast_path::{self, Object, Text};

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    choices: (Object<Choice<'a>>,),
    #[serde(default)]
    object: &'a str,
    error: Option<IgnoredAny>,
    usage: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    index: Option<u64>,
    #[serde(borrow)]
    delta: Object<Delta<'a>>,
    finish_reason: Option<IgnoredAny>,
}

/// Content that a chunk adds, if it adds nothing else.
#[derive(Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow, default)]
    pub(super) content: Text<'a>,
    #[serde(borrow, default)]
    pub(super) reasoning_content: Text<'a>,
    #[serde(borrow, default)]
    pub(super) reasoning: Text<'a>,
    refusal: Option<IgnoredAny>,
    #[serde(borrow)]
    pub(super) tool_calls: Option<(Object<Call<'a>>,)>,
}

impl<'a> Delta<'a> {
    /// Returns the text if nothing else is added and it is written without escapes.
    pub(super) fn only_text(&self) -> Option<&'a str> {
        let is_alone =
            self.reasoning_content.is_empty() && self.reasoning.is_empty() && self.tool_calls.is_none();
        match self.content.0 {
            Some(Cow::Borrowed(text)) if is_alone => Some(text),
            _ => None,
        }
    }
}

/// A piece of a call.
#[derive(Deserialize)]
pub(super) struct Call<'a> {
    pub(super) index: u64,
    #[serde(borrow, default)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) function: Object<Function<'a>>,
}

/// Content of a piece of a call.
#[derive(Deserialize)]
pub(super) struct Function<'a> {
    #[serde(borrow, default)]
    pub(super) name: Text<'a>,
    #[serde(borrow, default)]
    pub(super) arguments: Text<'a>,
}

/// Parses what a chunk adds to the first choice; returns `None` for any other chunk.
pub(super) fn read(data: &str) -> Option<Delta<'_>> {
    let chunk: Chunk<'_> = fast_path::read(data)?;
    let (Object(choice),) = chunk.choices;
    let Object(delta) = choice.delta;
    let is_plain = chunk.error.is_none()
        && chunk.usage.is_none()
        && chunk.object != "error"
        && choice.index.is_none_or(|index| index == 0)
        && choice.finish_reason.is_none()
        && delta.refusal.is_none();
    is_plain.then_some(delta)
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn fast_path_reads_only_common_chunks() {
        let chunk = r#"{"id":"c","object":"chat.completion.chunk","created":1,"choices":[{"index":0,"delta":{"content":"a","refusal":null},"logprobs":null,"finish_reason":null}]}"#;
        assert_eq!(read(chunk).unwrap().content[..], *"a");
        let chunk = r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]},"finish_reason":null}]}"#;
        assert!(read(chunk).unwrap().tool_calls.is_some());
        for chunk in [
            r#"{"choices":[]}"#,
            r#"{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}"#,
            r#"{"choices":[{"index":0,"delta":{"content":1},"finish_reason":null}]}"#,
            r#"{"error":{},"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}"#,
            r#"{"usage":{},"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}"#,
        ] {
            assert!(read(chunk).is_none(), "{chunk}");
        }
    }
}
