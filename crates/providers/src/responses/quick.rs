//! More of a text, of a thought or of a call's arguments: nearly all that a stream consists of.

use serde::Deserialize;

use super::item::Section;
use crate::quick::{self, Text};

/// What an event adds to its item.
#[derive(Deserialize)]
pub(super) struct Piece<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(default)]
    pub(super) output_index: Option<u64>,
    #[serde(borrow, default)]
    pub(super) item_id: Text<'a>,
    #[serde(default)]
    content_index: Option<u64>,
    #[serde(default)]
    summary_index: Option<u64>,
    #[serde(borrow, default)]
    pub(super) delta: Text<'a>,
}

/// What of an item grows.
pub(super) enum Place {
    Text(Section, u64),
    Arguments,
}

impl Piece<'_> {
    /// Reads the event and what of its item grows; `None` for any other event.
    pub(super) fn read(data: &str) -> Option<(Place, Piece<'_>)> {
        let piece: Piece<'_> = quick::read(data)?;
        if piece.delta.is_absent() {
            return None;
        }
        let content = piece.content_index.unwrap_or_default();
        let place = match piece.kind {
            "response.output_text.delta" => Place::Text(Section::Output, content),
            "response.reasoning_text.delta" => Place::Text(Section::Reasoning, content),
            "response.reasoning_summary_text.delta" => {
                Place::Text(Section::Summary, piece.summary_index.unwrap_or_default())
            }
            "response.function_call_arguments.delta" => Place::Arguments,
            _ => return None,
        };
        Some((place, piece))
    }
}
