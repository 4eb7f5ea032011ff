//! Tool calls that a model writes as text because its server does not read them.
//!
//! Two ways are known: `<tool_call>{…}</tool_call>`, one or more, and a text that is nothing but one JSON
//! object, fenced or not. The object must be exactly a name and arguments, so that an answer which merely
//! resembles a call stays an answer. Text that may become a call is held back until that is decided.

use std::borrow::Cow;
use std::mem;

use serde_json::{Map, Value};

use super::think::overlap;

const START: &str = "<tool_call>";
const END: &str = "</tool_call>";
/// How a text that is nothing but a call begins, white space aside.
const OPENINGS: [&str; 3] = ["{\"name\":", "```json{\"name\":", "```{\"name\":"];
/// How long a tool's name may be.
const MAX_NAME: usize = 64;

/// A call as it was written.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SpokenCall {
    pub(super) name: String,
    pub(super) args: Map<String, Value>,
}

/// Lets text through and holds back what may be a call.
#[derive(Debug, Default)]
pub(super) struct Gate {
    state: State,
    held: String,
}

#[derive(Debug)]
enum State {
    /// At the beginning; what was seen of it, without white space.
    Opening(String),
    Open,
    Holding,
    /// Everything is decided.
    Settled,
}

impl Default for State {
    fn default() -> Self {
        Self::Opening(String::new())
    }
}

impl Gate {
    /// Makes one that lets everything through.
    pub(super) fn settled() -> Self {
        Self { state: State::Settled, held: String::new() }
    }

    /// Takes text; returns what may be shown now.
    pub(super) fn push<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        let is_free = matches!(self.state, State::Settled) || !text.contains('<');
        if self.held.is_empty() && is_free && matches!(self.state, State::Open | State::Settled) {
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
            State::Settled => Cow::Owned(mem::take(&mut self.held)),
            State::Open => {
                let shown = if let Some(at) = self.held.find(START) {
                    self.state = State::Holding;
                    at
                } else {
                    self.held.len() - overlap(&self.held, START)
                };
                let held = self.held.split_off(shown);
                Cow::Owned(mem::replace(&mut self.held, held))
            }
        }
    }

    /// Decides about what is held back: the calls in it, and what else is to be shown.
    ///
    /// Text is no call where the server reads calls itself.
    pub(super) fn settle(&mut self, read: CallsRead) -> (Vec<SpokenCall>, String) {
        let held = mem::take(&mut self.held);
        let is_held = matches!(mem::replace(&mut self.state, State::Settled), State::Holding);
        let calls = (is_held && read == CallsRead::None).then(|| calls(&held)).flatten();
        calls.unwrap_or((Vec::new(), held))
    }
}

/// Whether the server read calls itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallsRead {
    /// It found none.
    None,
    /// It found some.
    Some,
}

/// Says what the beginning of a text turned out to be; `None` while it may still be a call.
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

/// Reads the calls of a text, and the text that is left without them; `None` if there is anything doubtful.
fn calls(text: &str) -> Option<(Vec<SpokenCall>, String)> {
    if !text.starts_with(START) {
        return Some((vec![call(unfenced(text))?], String::new()));
    }
    let (mut calls, mut left) = (Vec::new(), String::new());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(START) {
        left.push_str(before.trim());
        // The last end tag may have been taken for a stop sequence.
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

fn call(text: &str) -> Option<SpokenCall> {
    let mut object: Map<String, Value> = serde_json::from_str(text).ok()?;
    let Some(Value::String(name)) = object.shift_remove("name") else {
        return None;
    };
    let args = object.shift_remove("arguments").or_else(|| object.shift_remove("parameters"));
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let is_name = (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_plain);
    match args {
        Some(Value::Object(args)) if is_name && object.is_empty() => Some(SpokenCall { name, args }),
        _ => None,
    }
}
