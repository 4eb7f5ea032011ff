//! Changes to the tokens of JSON, wherever it stands; most of them leave it valid.

use std::ops::Range;

use super::Edit;
use crate::random::Random;

pub(super) const EDITS: [Edit; 8] = [exchange, exchange, borrow, repeat, remove, wrap, rename, grow];

/// Values of every type, at the edges of what can be read.
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

/// The tokens of JSON in some bytes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tokens {
    /// Whole values, nested ones included.
    values: Vec<Range<usize>>,
    /// The keys of objects, with their quotes.
    keys: Vec<Range<usize>>,
}

impl Tokens {
    /// Finds what looks like JSON; anything else is passed over.
    fn of(bytes: &[u8]) -> Self {
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

/// Puts a value of any type in place of another.
fn exchange(input: &mut Vec<u8>, _: &[u8], random: &mut Random) {
    if let (Some(at), Some(new)) = (random.pick(&Tokens::of(input).values).cloned(), random.pick(&VALUES)) {
        input.splice(at, new.bytes());
    }
}

/// Puts a value from elsewhere in place of another.
fn borrow(input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let from = if random.below(2) == 0 { other.to_vec() } else { input.clone() };
    let new = random.pick(&Tokens::of(&from).values).cloned();
    if let (Some(at), Some(new)) = (random.pick(&Tokens::of(input).values).cloned(), new) {
        input.splice(at, from[new].to_vec());
    }
}

/// Says a member or an element twice.
fn repeat(input: &mut Vec<u8>, _: &[u8], random: &mut Random) {
    let tokens = Tokens::of(input);
    let Some(value) = random.pick(&tokens.values).cloned() else { return };
    let member = member_of(&tokens, &value);
    let copy = [b",", &input[member]].concat();
    input.splice(value.end..value.end, copy);
}

/// Takes a member or an element away.
fn remove(input: &mut Vec<u8>, _: &[u8], random: &mut Random) {
    let tokens = Tokens::of(input);
    let Some(value) = random.pick(&tokens.values).cloned() else { return };
    let mut member = member_of(&tokens, &value);
    if input.get(member.end) == Some(&b',') {
        member.end += 1;
    } else if member.start > 0 && input[member.start - 1] == b',' {
        member.start -= 1;
    }
    input.drain(member);
}

/// Returns a value together with its key, if it has one right before it.
fn member_of(tokens: &Tokens, value: &Range<usize>) -> Range<usize> {
    let key = tokens.keys.iter().find(|key| key.end + 1 == value.start);
    key.map_or(value.start, |key| key.start)..value.end
}

/// Puts a value deep inside others.
fn wrap(input: &mut Vec<u8>, _: &[u8], random: &mut Random) {
    let Some(at) = random.pick(&Tokens::of(input).values).cloned() else { return };
    let depth = [1, 2, 5, 60, 126, 129, 1000, 8000][random.below(8)];
    let (before, after) = if random.below(2) == 0 { ("[", "]") } else { ("{\"a\":", "}") };
    let new = [before.repeat(depth).as_bytes(), &input[at.clone()], after.repeat(depth).as_bytes()].concat();
    input.splice(at, new);
}

/// Gives a member the key of another.
fn rename(input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let from = if random.below(2) == 0 { other.to_vec() } else { input.clone() };
    let new = random.pick(&Tokens::of(&from).keys).cloned();
    if let (Some(at), Some(new)) = (random.pick(&Tokens::of(input).keys).cloned(), new) {
        input.splice(at, from[new].to_vec());
    }
}

/// Makes a value very long.
fn grow(input: &mut Vec<u8>, _: &[u8], random: &mut Random) {
    let Some(at) = random.pick(&Tokens::of(input).values).cloned() else { return };
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
    fn tokens_are_found_wherever_json_stands() {
        let text = br#"data: {"a":["b\"",-1.5e3,{}],"c":true}"#;
        let shown = |list: &[Range<usize>]| -> Vec<String> {
            list.iter().map(|at| String::from_utf8_lossy(&text[at.clone()]).into_owned()).collect()
        };
        let tokens = Tokens::of(text);
        assert_eq!(shown(&tokens.keys), [r#""a""#, r#""c""#]);
        let whole = r#"{"a":["b\"",-1.5e3,{}],"c":true}"#;
        let expected = ["data", r#""b\"""#, "-1.5e3", "{}", r#"["b\"",-1.5e3,{}]"#, "true", whole];
        assert_eq!(shown(&tokens.values), expected);
    }
}
