//! Mutations of inputs: bytes, JSON tokens, and lines and events of a stream.

mod bytes;
mod json;
mod sse;

use crate::random::Random;

/// Mutations that suit an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// A stream of events that contain JSON.
    Stream,
    /// A JSON document, which usually has to stay valid.
    Json,
    /// Lines of text with occasional JSON.
    Text,
}

/// A mutation; it may copy from the second input.
type Edit = fn(&mut Vec<u8>, &[u8], &mut Random);

/// Applies one mutation to an input.
pub(crate) fn mutate(input: &mut Vec<u8>, other: &[u8], style: Style, random: &mut Random) {
    let families: &[&[Edit]] = match style {
        Style::Stream => &[&bytes::EDITS, &json::EDITS, &json::EDITS, &sse::EDITS, &sse::EDITS],
        Style::Json => &[&json::EDITS, &json::EDITS, &json::EDITS, &json::EDITS, &bytes::EDITS],
        Style::Text => &[&bytes::EDITS, &json::EDITS, &sse::EDITS],
    };
    if let Some(edit) = random.pick(families).copied().and_then(|family| random.pick(family)) {
        edit(input, other, random);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutations_handle_any_bytes_and_are_reproducible() {
        let seeds: [&[u8]; 5] =
            [b"", b"{", b"data: {\"a\":[1,\"b\"]}\r\n\r\n", b"\xff\"\\", b"[[]]]}\"a\\\":"];
        for style in [Style::Stream, Style::Json, Style::Text] {
            let run = |seed: u64| {
                let mut random = Random::seeded(seed);
                let mut input = seeds[random.below(seeds.len())].to_vec();
                for _ in 0..20 {
                    let other = seeds[random.below(seeds.len())];
                    mutate(&mut input, other, style, &mut random);
                    input.truncate(4096);
                }
                input
            };
            for seed in 0..300 {
                assert_eq!(run(seed), run(seed));
            }
        }
    }
}
