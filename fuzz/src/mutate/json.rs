//! Mutations of JSON tokens anywhere in an input; most of them keep the JSON valid.

use std::ops::Range;

use super::Edit;
use crate::random::Random;

pub(super) const EDITS: [Edit; 8] = [exchange, exchange, borrow, repeat, remove, wrap, rename, grow];

/// Values of every type, including edge cases.
const VALUES: [&str; 34] = [
    "null",
    "true",
    "false",
    "0",
    "-0",
    "-1",
    "1",
    "2",
    "0.5",
    "1e2",
    "1E400",
    "-1e308",
    "5e-324",
    "255",
    "65536",
    "4294967296",
    "9007199254740993",
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775809",
    "\"\"",
    "\" \"",
    "\"x\"",
    "\"0\"",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "\"\\ud83d\\ude00\"",
    "\"é☔\"",
    "\"\\n\\r\\n\"",
    "\"{}\"",
    "[]",
    "{}",
    "[null]",
    "{\"\":null}",
];

/// Ranges of JSON tokens in an input.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tokens {
    /// Complete values, including nested ones.
    values: Vec<Range<usize>>,
    /// Object keys, with their quotes.
    keys: Vec<Range<usize>>,
}

impl Tokens {
    /// Finds everything that looks like JSON; other bytes are skipped.
    fn scan(bytes: &[u8]) -> Self {
        let mut tokens = Self::default();
        let mut open = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let start = at;
            match bytes[at] {
                b'{' | b'[' => {
                    open.push(at);
                    at += 1;
                }
                b'}' | b']' => {
                    at += 1;
                    tokens.values.extend(open.pop().map(|start| start..at));
                }
                b'"' => {
                    at = end_of_string(bytes, at);
                    let is_key = bytes.get(at) == Some(&b':');
                    let list = if is_key { &mut tokens.keys } else { &mut tokens.values };
                    list.push(start..at);
                }
                byte if is_word(byte) => {
                    while bytes.get(at).is_some_and(|byte| is_word(*byte)) {
                        at += 1;
                    }
                    tokens.values.push(start..at);
                }
                _ => at += 1,
            }
        }
        tokens
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.')
}

fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Replaces a value with one of any type.
fn exchange(input: &mut Vec<u8>, _: &[u8], random: &mut Random) {
    if let (Some(at), Some(new)) = (random.pick(&Tokens::scan(input).values).cloned(), random.pick(&VALUES)) {
        input.splice(at, new.bytes());
    }
}

/// Replaces a value with one from another input.
fn borrow(input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let from = if random.below(2) == 0 { other.to_vec() } else { input.clone() };
    let new = random.pick(&Tokens::scan(&from).values).cloned();
    if let (Some(at), Some(new)) = (random.pick(&Tokens::scan(input).values).cloned(), new) {
        input.splice(at, from[new].to_vec());
    }
}

/// Duplicates a member or an element.
fn repeat(input: &mut Vec<u8>, _: &[u8], random: &mut Random) {
    let tokens = Tokens::scan(input);
    let Some(value) = random.pick(&tokens.values).cloned() else { return };
    let member = member_of(&tokens, &value);
    let copy = [b",", &input[member]].concat();
    input.splice(value.end..value.end, copy);
}

/// Removes a member or an element.
fn remove(input: &mut Vec<u8>, _: &[u8], random: &mut Random) {
    let tokens = Tokens::scan(input);
    let Some(value) = random.pick(&tokens.values).cloned() else { return };
    let mut member = member_of(&tokens, &value);
    if input.get(member.end) == Some(&b',') {
        member.end += 1;
    } else if member.start > 0 && input[member.start - 1] == b',' {
        member.start -= 1;
    }
    input.drain(member);
}

/// Returns a value together with the key right before it, if there is one.
fn member_of(tokens: &Tokens, value: &Range<usize>) -> Range<usize> {
    let key = tokens.keys.iter().find(|key| key.end + 1 == value.start);
    key.map_or(value.start, |key| key.start)..value.end
}

/// Nests a value deeply.
fn wrap(input: &mut Vec<u8>, _: &[u8], random: &mut Random) {
    let Some(at) = random.pick(&Tokens::scan(input).values).cloned() else { return };
    let depth = [1, 2, 5, 60, 126, 129, 1000, 8000][random.below(8)];
    let (before, after) = if random.below(2) == 0 { ("[", "]") } else { ("{\"a\":", "}") };
    let new = [before.repeat(depth).as_bytes(), &input[at.clone()], after.repeat(depth).as_bytes()].concat();
    input.splice(at, new);
}

/// Replaces the key of a member with another one.
fn rename(input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let from = if random.below(2) == 0 { other.to_vec() } else { input.clone() };
    let new = random.pick(&Tokens::scan(&from).keys).cloned();
    if let (Some(at), Some(new)) = (random.pick(&Tokens::scan(input).keys).cloned(), new) {
        input.splice(at, from[new].to_vec());
    }
}

/// Replaces a value with a very long one.
fn grow(input: &mut Vec<u8>, _: &[u8], random: &mut Random) {
    let Some(at) = random.pick(&Tokens::scan(input).values).cloned() else { return };
    let length = [10, 70, 300, 5_000, 30_000][random.below(5)];
    let new = match random.below(3) {
        0 => format!("\"{}\"", "x".repeat(length)),
        1 => "9".repeat(length.min(400)),
        _ => format!("[{}]", vec!["1"; length / 2].join(",")),
    };
    input.splice(at, new.into_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_found_anywhere() {
        let text = br#"data: {"a":["b\"",-1.5e3,{}],"c":true}"#;
        let texts = |list: &[Range<usize>]| -> Vec<String> {
            list.iter().map(|at| String::from_utf8_lossy(&text[at.clone()]).into_owned()).collect()
        };
        let tokens = Tokens::scan(text);
        assert_eq!(texts(&tokens.keys), [r#""a""#, r#""c""#]);
        let document = r#"{"a":["b\"",-1.5e3,{}],"c":true}"#;
        let expected = ["data", r#""b\"""#, "-1.5e3", "{}", r#"["b\"",-1.5e3,{}]"#, "true", document];
        assert_eq!(texts(&tokens.values), expected);
    }
}
