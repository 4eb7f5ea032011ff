//! Mutations of lines and events of a stream.

use std::ops::Range;

use super::Edit;
use crate::random::Random;

pub(super) const EDITS: [Edit; 9] =
    [drop_event, repeat_event, swap_events, borrow_event, cut_line, drop_line, split_line, line_ends, remark];

/// Returns the ranges that end with `end`, including it.
fn stretches(input: &[u8], end: &[u8]) -> Vec<Range<usize>> {
    let mut out = Vec::new();
    let mut start = 0;
    while let Some(at) = input[start..].windows(end.len()).position(|window| window == end) {
        out.push(start..start + at + end.len());
        start += at + end.len();
    }
    if start < input.len() {
        out.push(start..input.len());
    }
    out
}

fn events(input: &[u8]) -> Vec<Range<usize>> {
    let end: &[u8] = if input.windows(2).any(|window| window == b"\n\n") { b"\n\n" } else { b"\r\n\r\n" };
    stretches(input, end)
}

fn drop_event(input: &mut Vec<u8>, _: &[u8], random: &mut Random) {
    if let Some(event) = random.pick(&events(input)).cloned() {
        input.drain(event);
    }
}

fn repeat_event(input: &mut Vec<u8>, _: &[u8], random: &mut Random) {
    let events = events(input);
    if let (Some(from), Some(to)) = (random.pick(&events).cloned(), random.pick(&events).cloned()) {
        let copy = input[from].to_vec();
        input.splice(to.start..to.start, copy);
    }
}

fn swap_events(input: &mut Vec<u8>, _: &[u8], random: &mut Random) {
    let mut pieces: Vec<Vec<u8>> = events(input).into_iter().map(|event| input[event].to_vec()).collect();
    let (first, second) = (random.below(pieces.len()), random.below(pieces.len()));
    if !pieces.is_empty() {
        pieces.swap(first, second);
        *input = pieces.concat();
    }
}

fn borrow_event(input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let new = random.pick(&events(other)).cloned();
    if let (Some(at), Some(new)) = (random.pick(&events(input)).cloned(), new) {
        input.splice(at.start..at.start, other[new].to_vec());
    }
}

fn cut_line(input: &mut Vec<u8>, _: &[u8], random: &mut Random) {
    if let Some(line) = random.pick(&stretches(input, b"\n")).cloned() {
        let at = line.start + random.below(line.len());
        input.drain(at..line.end.saturating_sub(1).max(at));
    }
}

fn drop_line(input: &mut Vec<u8>, _: &[u8], random: &mut Random) {
    if let Some(line) = random.pick(&stretches(input, b"\n")).cloned() {
        input.drain(line);
    }
}

/// Splits the data of an event into two lines.
fn split_line(input: &mut Vec<u8>, _: &[u8], random: &mut Random) {
    if let Some(line) = random.pick(&stretches(input, b"\n")).cloned() {
        let at = line.start + random.below(line.len());
        input.splice(at..at, *b"\ndata: ");
    }
}

fn line_ends(input: &mut Vec<u8>, _: &[u8], random: &mut Random) {
    let end: &[u8] = [b"\r\n".as_slice(), b"\r", b"\n"][random.below(3)];
    let replace_all = random.below(2) == 0;
    let mut out = Vec::with_capacity(input.len() + 16);
    for byte in input.iter() {
        match byte {
            b'\r' if replace_all => {}
            b'\n' if replace_all || random.below(4) == 0 => out.extend_from_slice(end),
            byte => out.push(*byte),
        }
    }
    *input = out;
}

fn remark(input: &mut Vec<u8>, _: &[u8], random: &mut Random) {
    const LINES: [&str; 10] = [
        ": ping\n",
        "event: error\n",
        "data: [DONE]\n\n",
        "data\n",
        "data:\n\n",
        "id: 1\n",
        "retry: 5\n",
        "\n",
        "\u{feff}",
        "event:\n",
    ];
    let lines = stretches(input, b"\n");
    let at = random.pick(&lines).map_or(0, |line| line.start);
    if let Some(line) = random.pick(&LINES) {
        input.splice(at..at, line.bytes());
    }
}
