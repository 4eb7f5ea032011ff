//! Fast path for chunks that extend the text or reasoning: nearly all of a stream.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::stream::Counts;
use crate::fast_path::{self, Object, Text};

/// Content that a chunk adds, if it adds nothing else.
pub(super) struct Piece<'a> {
    pub(super) text: Text<'a>,
    pub(super) signature: Text<'a>,
    pub(super) is_thought: bool,
    pub(super) response_id: Text<'a>,
    pub(super) usage: Option<Counts>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chunk<'a> {
    #[serde(borrow)]
    candidates: (Object<Candidate<'a>>,),
    usage_metadata: Option<Object<Counts>>,
    #[serde(borrow, default)]
    response_id: Text<'a>,
    error: Option<IgnoredAny>,
    prompt_feedback: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate<'a> {
    #[serde(borrow)]
    content: Object<Content<'a>>,
    index: Option<u64>,
    finish_reason: Option<IgnoredAny>,
    grounding_metadata: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow)]
    parts: (Object<Part<'a>>,),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Part<'a> {
    #[serde(borrow)]
    text: Text<'a>,
    thought: Option<bool>,
    #[serde(borrow, default)]
    thought_signature: Text<'a>,
}

/// Parses what a chunk adds to the first candidate; returns `None` for any other chunk.
pub(super) fn read(data: &str) -> Option<Piece<'_>> {
    let chunk: Chunk<'_> = fast_path::read(data)?;
    let (Object(candidate),) = chunk.candidates;
    let is_plain = chunk.error.is_none()
        && chunk.prompt_feedback.is_none()
        && candidate.index.is_none_or(|index| index == 0)
        && candidate.finish_reason.is_none()
        && candidate.grounding_metadata.is_none();
    let Object(Content { parts: (Object(part),) }) = candidate.content;
    (is_plain && part.text.0.is_some()).then_some(Piece {
        text: part.text,
        signature: part.thought_signature,
        is_thought: part.thought.unwrap_or(false),
        response_id: chunk.response_id,
        usage: chunk.usage_metadata.map(|Object(usage)| usage),
    })
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn fast_path_reads_only_common_chunks() {
        let chunk = r#"{"candidates":[{"content":{"parts":[{"text":"a"}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":3},"responseId":"r"}"#;
        let piece = read(chunk).unwrap();
        assert_eq!((&*piece.text, &*piece.response_id, piece.is_thought), ("a", "r", false));
        for chunk in [
            r#"{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}]}"#,
            r#"{"candidates":[{"content":{"parts":[{"text":"a","inlineData":{}}]}}]}"#,
            r#"{"candidates":[{"content":{"parts":[{"text":null}]}}]}"#,
            r#"{"promptFeedback":{},"candidates":[{"content":{"parts":[{"text":"a"}]}}]}"#,
        ] {
            assert!(read(chunk).is_none(), "{chunk}");
        }
    }
}
