//! Reasoning that a server leaves in the content, between `<think>` and `</think>` at its start.

use std::mem;

const START: &str = "<think>";
const END: &str = "</think>";

/// A piece of content, sorted.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Reasoning.
    Reasoning(String),
    /// Text.
    Text(String),
}

/// Sorts content as it arrives, however it is cut.
#[derive(Debug, Default)]
pub(super) struct Splitter {
    state: State,
    /// What may be part of a tag.
    kept: String,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing but white space and perhaps the beginning of a tag was seen.
    #[default]
    Start,
    /// The tag was opened, and nothing but white space followed.
    Opened,
    Thinking,
    /// The tag was closed, and nothing but white space followed.
    Closed,
    Text,
}

impl Splitter {
    /// Sorts more content.
    pub(super) fn push(&mut self, content: &str) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut content = content.to_owned();
        while let Some(rest) = self.step(&content, &mut pieces) {
            content = rest;
        }
        pieces
    }

    /// Says whether everything that follows is text.
    pub(super) fn is_done(&self) -> bool {
        self.state == State::Text
    }

    /// Gives up what was kept; there is no more content.
    pub(super) fn flush(&mut self) -> Option<Piece> {
        let kept = mem::take(&mut self.kept);
        let state = mem::replace(&mut self.state, State::Text);
        let is_thought = matches!(state, State::Opened | State::Thinking);
        (!kept.is_empty()).then_some(if is_thought { Piece::Reasoning(kept) } else { Piece::Text(kept) })
    }

    /// Takes content in the state it is in; returns what the next state must see.
    fn step(&mut self, content: &str, pieces: &mut Vec<Piece>) -> Option<String> {
        match self.state {
            State::Start => {
                self.kept.push_str(content);
                let seen = self.kept.trim_start();
                if let Some(rest) = seen.strip_prefix(START) {
                    let rest = rest.to_owned();
                    self.kept.clear();
                    return self.next(State::Opened, rest);
                }
                if START.starts_with(seen) {
                    return None;
                }
                let rest = mem::take(&mut self.kept);
                self.next(State::Text, rest)
            }
            State::Opened => self.skip(content, State::Thinking),
            State::Closed => self.skip(content, State::Text),
            State::Thinking => {
                self.kept.push_str(content);
                let seen = mem::take(&mut self.kept);
                let (thought, rest) = match seen.split_once(END) {
                    Some((thought, rest)) => (thought, Some(rest)),
                    None => {
                        let (thought, kept) = seen.split_at(seen.len() - overlap(&seen, END));
                        kept.clone_into(&mut self.kept);
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

/// Returns how many bytes at the end of a text may be the beginning of a tag.
pub(super) fn overlap(text: &str, tag: &str) -> usize {
    (1..tag.len()).rev().find(|length| text.ends_with(&tag[..*length])).unwrap_or(0)
}
