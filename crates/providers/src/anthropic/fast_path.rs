//! Fast path for events that extend text, thinking, or the arguments of a call: nearly all of a stream.

use std::borrow::Cow;

use serde::Deserialize;

use crate::fast_path::{self, Object, Text};

/// Content that an event adds to its block.
pub(super) enum Piece<'a> {
    Text(Cow<'a, str>),
    Thinking(Cow<'a, str>),
    Json(Cow<'a, str>),
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    index: u64,
    #[serde(borrow)]
    delta: Object<Delta<'a>>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow, default)]
    text: Text<'a>,
    #[serde(borrow, default)]
    thinking: Text<'a>,
    #[serde(borrow, default)]
    partial_json: Text<'a>,
}

/// Parses the event and the index of its block; returns `None` for any other event.
pub(super) fn read(data: &str) -> Option<(u64, Piece<'_>)> {
    let event: Event<'_> = fast_path::read(data)?;
    let Object(delta) = event.delta;
    let piece = match (event.kind, delta.kind) {
        ("content_block_delta", "text_delta") => Piece::Text(delta.text.0?),
        ("content_block_delta", "thinking_delta") => Piece::Thinking(delta.thinking.0?),
        ("content_block_delta", "input_json_delta") => Piece::Json(delta.partial_json.0?),
        _ => return None,
    };
    Some((event.index, piece))
}

#[cfg(test)]
mod tests {
    use super::{Piece, read};

    #[test]
    fn fast_path_reads_only_common_events() {
        let event = r#"{"type":"content_block_delta","index":3,"delta":{"type":"text_delta","text":"a\nb"}}"#;
        assert!(matches!(read(event), Some((3, Piece::Text(text))) if text == "a\nb"));
        let event = r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{"}}"#;
        assert!(matches!(read(event), Some((0, Piece::Json(text))) if text == "{"));
        for event in [
            r#"{"type":"content_block_stop","index":0}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta"}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":["text_delta","a"]}"#,
            r#"["content_block_delta",0,{"type":"text_delta","text":"a"}]"#,
        ] {
            assert!(read(event).is_none(), "{event}");
        }
    }
}
