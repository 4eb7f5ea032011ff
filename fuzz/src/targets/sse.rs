//! The splitter of event streams.

use meerkat_providers::fuzzing::events;

use super::{kind_of, streams, texts};
use crate::engine::{Target, Verdict};
use crate::mutate::Style;
use crate::random::Random;

pub(super) const TARGET: Target = Target { name: "sse", style: Style::Stream, corpus, run };

fn corpus() -> Vec<Vec<u8>> {
    texts(&[
        "event: one\ndata: {\"a\":1}\n\ndata: two\ndata: lines\n\n",
        ": remark\r\nid: 7\r\nretry: 10\r\nevent: x\r\ndata:y\r\n\r\ndata\r\n\r\n",
        "\u{feff}data: é☔\r\rdata: b\r\r",
        "data: no end",
        "\n\n\nevent: only\n\ndata:\n\n",
    ])
}

fn run(input: &[u8], random: &mut Random) -> Verdict {
    let unsplit = events([input]);
    for pieces in streams::cuts(input, random) {
        let cut = events(pieces);
        if cut != unsplit {
            return Err(format!("split, the stream differs: {cut:?} instead of {unsplit:?}"));
        }
    }
    if unsplit.events.iter().any(|(name, data)| name.contains(['\n', '\r']) || data.contains('\r')) {
        return Err(format!("a line end inside a line: {unsplit:?}"));
    }
    let shape: String = unsplit.events.iter().take(6).map(|(name, data)| shape(name, data)).collect();
    Ok(format!("{shape} {}", kind_of(&unsplit.error.unwrap_or_default())))
}

fn shape(name: &str, data: &str) -> char {
    match (name.is_empty(), data.lines().count()) {
        (true, 0) => 'e',
        (true, 1) => 'd',
        (true, _) => 'l',
        (false, 0) => 'E',
        (false, 1) => 'D',
        (false, _) => 'L',
    }
}
