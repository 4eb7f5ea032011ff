//! Tool calls that a model writes as text because its server does not parse them.
//!
//! Two forms are recognized: one or more `<tool_call>{…}</tool_call>`, and a text that consists of a single JSON
//! object, fenced or not. The object must have exactly a name and arguments, so that an answer which merely
//! resembles a call remains an answer. Text that may become a call is held back until that is decided.

use std::borrow::Cow;
use std::mem;

use serde_json::{Map, Value};

use super::think::overlap;

const START: &str = "<tool_call>";
const END: &str = "</tool_call>";
/// Prefixes of a text that consists of a single call, ignoring whitespace.
const OPENINGS: [&str; 3] = ["{\"name\":", "```json{\"name\":", "```{\"name\":"];
/// Maximum length of a tool name.
const MAX_NAME: usize = 64;

/// A call written as text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TextToolCall {
    pub(super) name: String,
    pub(super) args: Map<String, Value>,
}

/// Passes text through and holds back what may be a call.
#[derive(Debug, Default)]
pub(super) struct TextCallFilter {
    state: State,
    held: String,
}

#[derive(Debug)]
enum State {
    /// At the start; holds the text seen so far, without whitespace.
    Opening(String),
    Open,
    Holding,
    /// Everything passes through.
    Passthrough,
}

impl Default for State {
    fn default() -> Self {
        Self::Opening(String::new())
    }
}

impl TextCallFilter {
    /// Creates a filter that passes everything through.
    pub(super) fn passthrough() -> Self {
        Self { state: State::Passthrough, held: String::new() }
    }

    /// Adds text; returns what can be emitted now.
    pub(super) fn push<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        let is_free = matches!(self.state, State::Passthrough) || !text.contains('<');
        if self.held.is_empty() && is_free && matches!(self.state, State::Open | State::Passthrough) {
            return Cow::Borrowed(text);
        }
        self.held.push_str(text);
        if let State::Opening(seen) = &mut self.state {
            let Some(next) = open(seen, text) else {
                return Cow::Borrowed("");
            };
            self.state = next;
        }
        match self.state {
            State::Opening(_) | State::Holding => Cow::Borrowed(""),
            State::Passthrough => Cow::Owned(mem::take(&mut self.held)),
            State::Open => {
                let end = if let Some(at) = self.held.find(START) {
                    self.state = State::Holding;
                    at
                } else {
                    self.held.len() - overlap(&self.held, START)
                };
                let held = self.held.split_off(end);
                Cow::Owned(mem::replace(&mut self.held, held))
            }
        }
    }

    /// Resolves the held text: returns the calls in it, and the remaining text to emit.
    ///
    /// Text is not parsed for calls if the server parsed calls itself.
    pub(super) fn finish(&mut self, read: CallsRead) -> (Vec<TextToolCall>, String) {
        let held = mem::take(&mut self.held);
        let is_held = matches!(mem::replace(&mut self.state, State::Passthrough), State::Holding);
        let calls = (is_held && read == CallsRead::None).then(|| calls(&held)).flatten();
        calls.unwrap_or((Vec::new(), held))
    }
}

/// Whether the server parsed calls itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallsRead {
    /// It returned no calls.
    None,
    /// It returned calls.
    Some,
}

/// Returns the state that the start of a text leads to; `None` while it may still be a call.
fn open(seen: &mut String, text: &str) -> Option<State> {
    for c in text.chars().filter(|c| !c.is_whitespace()) {
        seen.push(c);
        if OPENINGS.contains(&seen.as_str()) {
            return Some(State::Holding);
        }
        if !OPENINGS.iter().any(|opening| opening.starts_with(seen.as_str())) {
            return Some(State::Open);
        }
    }
    None
}

/// Parses the calls in a text; returns them with the remaining text. Returns `None` if anything is ambiguous.
fn calls(text: &str) -> Option<(Vec<TextToolCall>, String)> {
    if !text.starts_with(START) {
        return Some((vec![call(unfenced(text))?], String::new()));
    }
    let (mut calls, mut left) = (Vec::new(), String::new());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(START) {
        left.push_str(before.trim());
        // The last end tag may have been consumed as a stop sequence.
        let (body, next) = after.split_once(END).unwrap_or((after, ""));
        calls.push(call(unfenced(body))?);
        rest = next;
    }
    left.push_str(rest.trim());
    Some((calls, left))
}

fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let inner = text.strip_prefix("```").and_then(|inner| inner.strip_suffix("```"));
    inner.map_or(text, |inner| inner.strip_prefix("json").unwrap_or(inner).trim())
}

fn call(text: &str) -> Option<TextToolCall> {
    let mut object: Map<String, Value> = serde_json::from_str(text).ok()?;
    let Some(Value::String(name)) = object.shift_remove("name") else {
        return None;
    };
    let args = object.shift_remove("arguments").or_else(|| object.shift_remove("parameters"));
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let is_name = (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_plain);
    match args {
        Some(Value::Object(args)) if is_name && object.is_empty() => Some(TextToolCall { name, args }),
        _ => None,
    }
}
