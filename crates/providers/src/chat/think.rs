//! Reasoning that a server leaves at the start of the content, between `<think>` and `</think>`.

use std::mem;

const START: &str = "<think>";
const END: &str = "</think>";

/// A classified piece of content.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Reasoning.
    Reasoning(String),
    /// Text.
    Text(String),
}

/// Splits content into reasoning and text as it arrives, regardless of chunk boundaries.
#[derive(Debug, Default)]
pub(super) struct Splitter {
    state: State,
    /// Content that may be part of a tag.
    pending: String,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    /// At most whitespace and a possible prefix of a tag have been seen.
    #[default]
    Start,
    /// The tag was opened; only whitespace followed.
    Opened,
    Thinking,
    /// The tag was closed; only whitespace followed.
    Closed,
    Text,
}

impl Splitter {
    /// Adds content; returns the pieces that are complete.
    pub(super) fn push(&mut self, content: &str) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut content = content.to_owned();
        while let Some(rest) = self.step(&content, &mut pieces) {
            content = rest;
        }
        pieces
    }

    /// Returns `true` if all further content is text.
    pub(super) fn is_done(&self) -> bool {
        self.state == State::Text
    }

    /// Returns the pending content at the end of the stream.
    pub(super) fn flush(&mut self) -> Option<Piece> {
        let pending = mem::take(&mut self.pending);
        let state = mem::replace(&mut self.state, State::Text);
        match state {
            _ if pending.is_empty() => None,
            State::Opened | State::Thinking => Some(Piece::Reasoning(pending)),
            State::Start | State::Closed | State::Text => Some(Piece::Text(pending)),
        }
    }

    /// Processes content in the current state; returns what the next state must process.
    fn step(&mut self, content: &str, pieces: &mut Vec<Piece>) -> Option<String> {
        match self.state {
            State::Start => {
                self.pending.push_str(content);
                let seen = self.pending.trim_start();
                if let Some(rest) = seen.strip_prefix(START) {
                    let rest = rest.to_owned();
                    self.pending.clear();
                    return self.next(State::Opened, rest);
                }
                if START.starts_with(seen) {
                    return None;
                }
                let rest = mem::take(&mut self.pending);
                self.next(State::Text, rest)
            }
            State::Opened => self.skip(content, State::Thinking),
            State::Closed => self.skip(content, State::Text),
            State::Thinking => {
                self.pending.push_str(content);
                let seen = mem::take(&mut self.pending);
                let (thought, rest) = match seen.split_once(END) {
                    Some((thought, rest)) => (thought, Some(rest)),
                    None => {
                        let (thought, pending) = seen.split_at(seen.len() - overlap(&seen, END));
                        pending.clone_into(&mut self.pending);
                        (thought, None)
                    }
                };
                if !thought.is_empty() {
                    pieces.push(Piece::Reasoning(thought.to_owned()));
                }
                rest.and_then(|rest| self.next(State::Closed, rest.to_owned()))
            }
            State::Text => {
                if !content.is_empty() {
                    pieces.push(Piece::Text(content.to_owned()));
                }
                None
            }
        }
    }

    fn skip(&mut self, content: &str, next: State) -> Option<String> {
        let rest = content.trim_start();
        if rest.is_empty() { None } else { self.next(next, rest.to_owned()) }
    }

    fn next(&mut self, state: State, rest: String) -> Option<String> {
        self.state = state;
        Some(rest)
    }
}

/// Returns the length of the longest suffix of a text that is a proper prefix of a tag.
pub(super) fn overlap(text: &str, tag: &str) -> usize {
    (1..tag.len()).rev().find(|length| text.ends_with(&tag[..*length])).unwrap_or(0)
}
