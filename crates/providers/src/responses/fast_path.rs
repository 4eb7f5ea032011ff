//! Fast path for events that extend text, reasoning, or the arguments of a call: nearly all of a stream.

use serde::Deserialize;

use super::item::Section;
use crate::fast_path::{self, Text};

/// Content that an event adds to its item.
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

/// Part of an item that an event extends.
pub(super) enum Place {
    Text(Section, u64),
    Arguments,
}

impl Piece<'_> {
    /// Parses the event and the part of its item that it extends; returns `None` for any other event.
    pub(super) fn read(data: &str) -> Option<(Place, Piece<'_>)> {
        let piece: Piece<'_> = fast_path::read(data)?;
        piece.delta.0.as_ref()?;
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

#[cfg(test)]
mod tests {
    use super::Piece;

    #[test]
    fn fast_path_reads_only_common_events() {
        let event = r#"{"type":"response.output_text.delta","item_id":"m","output_index":0,"content_index":0,"delta":"a","logprobs":[]}"#;
        let (_, piece) = Piece::read(event).unwrap();
        assert_eq!((piece.output_index, &*piece.item_id, &*piece.delta), (Some(0), "m", "a"));
        for event in [
            r#"{"type":"response.output_text.delta","delta":null}"#,
            r#"{"type":"response.output_text.done","delta":"a"}"#,
            r#"{"type":"response.output_text.delta","output_index":"0","delta":"a"}"#,
        ] {
            assert!(Piece::read(event).is_none(), "{event}");
        }
    }
}
