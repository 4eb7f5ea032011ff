//! Mutations of bytes, independent of their meaning.

#![expect(clippy::ptr_arg, reason = "all edits have one type, and most change the length")]

use super::Edit;
use crate::random::Random;

/// Maximum length of a range that is moved at once.
const MAX_RANGE: usize = 512;
/// Bytes with a special meaning to parsers.
const PIVOTAL: &[u8] = b"\0\t\n\r \"\\{}[]:,<>/#-+.09eE\x7f\x80\xc3\xed\xf4\xff";

pub(super) const EDITS: [Edit; 7] = [flip, set, insert, delete, repeat, splice, cut];

fn flip(input: &mut Vec<u8>, _: &[u8], random: &mut Random) {
    let at = random.below(input.len());
    if let Some(byte) = input.get_mut(at) {
        *byte ^= 1 << random.below(8);
    }
}

fn set(input: &mut Vec<u8>, _: &[u8], random: &mut Random) {
    let at = random.below(input.len());
    if let (Some(byte), Some(pivotal)) = (input.get_mut(at), random.pick(PIVOTAL)) {
        *byte = *pivotal;
    }
}

fn insert(input: &mut Vec<u8>, _: &[u8], random: &mut Random) {
    let at = random.below(input.len() + 1);
    let new: Vec<u8> = (0..=random.below(4)).filter_map(|_| random.pick(PIVOTAL).copied()).collect();
    input.splice(at..at, new);
}

fn delete(input: &mut Vec<u8>, _: &[u8], random: &mut Random) {
    input.drain(random.stretch(input.len(), 16));
}

fn repeat(input: &mut Vec<u8>, _: &[u8], random: &mut Random) {
    let stretch = random.stretch(input.len(), MAX_RANGE);
    let at = stretch.end;
    let copy = input[stretch].repeat(1 + random.below(3));
    input.splice(at..at, copy);
}

fn splice(input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let piece = other[random.stretch(other.len(), MAX_RANGE)].to_vec();
    let at = random.stretch(input.len(), MAX_RANGE);
    let at = if random.below(2) == 0 { at.start..at.start } else { at };
    input.splice(at, piece);
}

fn cut(input: &mut Vec<u8>, _: &[u8], random: &mut Random) {
    let length = random.below(input.len() + 1);
    input.truncate(length);
}
