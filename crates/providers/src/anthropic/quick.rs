//! More of a text, of a thought or of a call's arguments: nearly all that a stream consists of.

use std::borrow::Cow;

use serde::Deserialize;

use crate::quick::{self, Object, Text};

/// What an event adds to its block.
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

/// Reads the event and the index of its block; `None` for any other event.
pub(super) fn read(data: &str) -> Option<(u64, Piece<'_>)> {
    let event: Event<'_> = quick::read(data)?;
    let Object(delta) = event.delta;
    let piece = match (event.kind, delta.kind) {
        ("content_block_delta", "text_delta") => Piece::Text(delta.text.0?),
        ("content_block_delta", "thinking_delta") => Piece::Thinking(delta.thinking.0?),
        ("content_block_delta", "input_json_delta") => Piece::Json(delta.partial_json.0?),
        _ => return None,
    };
    Some((event.index, piece))
}
