//! Checks whether a regular expression means the same in every engine.
//!
//! Providers check patterns with different engines, and reject the whole request if they cannot parse one. Only
//! constructs that every engine supports are kept: literals, classes, groups, choices, and counted repetition.

use std::iter::Peekable;
use std::str::Chars;

const MAX_PATTERN: usize = 512;
const MAX_REPEAT: u32 = 1_000;

/// Returns `true` if every engine supports the pattern.
pub(super) fn is_common(pattern: &str) -> bool {
    pattern.len() <= MAX_PATTERN && pattern.is_ascii() && scan(pattern).is_some()
}

/// The element before the current position.
#[derive(Clone, Copy, PartialEq)]
enum Before {
    Nothing,
    Something,
    Repetition,
}

fn scan(pattern: &str) -> Option<()> {
    let mut rest = pattern.chars().peekable();
    let mut depth = 0_u32;
    let mut before = Before::Nothing;
    while let Some(c) = rest.next() {
        before = match c {
            '\\' => escape(&mut rest).map(|_| Before::Something)?,
            '[' => class(&mut rest).map(|()| Before::Something)?,
            '(' => {
                if rest.next_if_eq(&'?').is_some() && rest.next() != Some(':') {
                    return None;
                }
                depth += 1;
                Before::Nothing
            }
            ')' => {
                depth = depth.checked_sub(1)?;
                Before::Something
            }
            '|' | '^' | '$' => Before::Nothing,
            '*' | '+' | '?' | '{' => {
                let lazy = c == '?' && before == Before::Repetition;
                if before != Before::Something && !lazy {
                    return None;
                }
                if c == '{' {
                    count(&mut rest)?;
                }
                if lazy { Before::Nothing } else { Before::Repetition }
            }
            ']' | '}' => return None,
            _ => Before::Something,
        };
    }
    (depth == 0).then_some(())
}

fn escape(rest: &mut Peekable<Chars<'_>>) -> Option<char> {
    rest.next().filter(|c| !c.is_ascii_alphanumeric() || "dDwWsStnr".contains(*c))
}

fn class(rest: &mut Peekable<Chars<'_>>) -> Option<()> {
    rest.next_if_eq(&'^');
    let mut last: Option<char> = None;
    let mut members = 0_u32;
    loop {
        members += 1;
        last = match rest.next()? {
            ']' => return (members > 1).then_some(()),
            '[' | '&' | '~' => return None,
            '\\' => escape(rest).filter(|c| !c.is_ascii_alphanumeric()),
            '-' if rest.peek() == Some(&']') => Some('-'),
            '-' => {
                let end = rest.next()?;
                let literal = !"\\[]&~-".contains(end);
                if !literal || last? > end {
                    return None;
                }
                None
            }
            c => Some(c),
        };
    }
}

fn count(rest: &mut Peekable<Chars<'_>>) -> Option<()> {
    let mut text = String::new();
    loop {
        match rest.next()? {
            '}' => break,
            c if c.is_ascii_digit() || c == ',' => text.push(c),
            _ => return None,
        }
    }
    let number = |text: &str| text.parse::<u32>().ok().filter(|n| *n <= MAX_REPEAT);
    match text.split_once(',') {
        None => number(&text).map(|_| ()),
        Some((low, "")) => number(low).map(|_| ()),
        Some((low, high)) => (number(low)? <= number(high)?).then_some(()),
    }
}
