//! The commands of the offline model, one per line.
//!
//! A command is the first word of its line, in any case; whitespace and one `> ` may precede it. Lines that are not
//! commands are ignored. `then`, alone on its line, separates the commands of one step from those of the next.

use std::time::Duration;

use meerkat_core::ModelErrorKind;
use serde_json::{Map, Value};

/// Maximum duration of `wait`.
const MAX_WAIT: Duration = Duration::from_secs(600);
/// Maximum number of commands; the rest are ignored.
const MAX_COMMANDS: usize = 1000;

const KINDS: [(&str, ModelErrorKind); 13] = [
    ("rate_limited", ModelErrorKind::RateLimited),
    ("overloaded", ModelErrorKind::Overloaded),
    ("network_timeout", ModelErrorKind::NetworkTimeout),
    ("call_timeout", ModelErrorKind::CallTimeout),
    ("connection", ModelErrorKind::Connection),
    ("server", ModelErrorKind::Server),
    ("stream_cut", ModelErrorKind::StreamCut),
    ("incomplete", ModelErrorKind::Incomplete),
    ("malformed", ModelErrorKind::Malformed),
    ("context_overflow", ModelErrorKind::ContextOverflow),
    ("auth", ModelErrorKind::Auth),
    ("bad_request", ModelErrorKind::BadRequest),
    ("content_filter", ModelErrorKind::ContentFilter),
];

/// Returns the name of a kind, as used with `fail`.
pub(super) fn kind_name(kind: ModelErrorKind) -> &'static str {
    let entry = KINDS.iter().find(|(_, known)| *known == kind);
    entry.map_or("unknown", |(name, _)| name)
}

/// One command.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Command<'a> {
    /// `say TEXT`
    Say(&'a str),
    /// A remark of the model about an invalid command.
    Remark(String),
    /// `think TEXT`
    Think(&'a str),
    /// `call NAME {json}`
    Call { name: &'a str, args: Value },
    /// `fail KIND`, always; `fail KIND N`, the first N times.
    Fail { kind: ModelErrorKind, times: Option<u32> },
    /// `wait MS`
    Wait(Duration),
}

/// The commands of a prompt.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Script<'a> {
    /// Commands of each step; no part is empty.
    pub(super) parts: Vec<Vec<Command<'a>>>,
    /// Texts of the `json` lines.
    pub(super) json: Vec<&'a str>,
}

impl<'a> Script<'a> {
    /// Parses the commands of a text.
    pub(super) fn read(text: &'a str) -> Self {
        let mut script = Self::default();
        let mut part = Vec::new();
        let mut remaining = MAX_COMMANDS;
        for line in text.lines() {
            let (word, rest) = split_word(line);
            if word.eq_ignore_ascii_case("json") {
                script.json.push(rest);
            } else if word.eq_ignore_ascii_case("then") && rest.is_empty() {
                script.close(&mut part);
                continue;
            } else if let Some(command) = read_command(word, rest) {
                part.push(command);
            } else {
                continue;
            }
            remaining -= 1;
            if remaining == 0 {
                break;
            }
        }
        script.close(&mut part);
        script
    }

    fn close(&mut self, part: &mut Vec<Command<'a>>) {
        if !part.is_empty() {
            self.parts.push(std::mem::take(part));
        }
    }
}

fn split_word(line: &str) -> (&str, &str) {
    let line = line.trim();
    let line = line.strip_prefix("> ").unwrap_or(line).trim_start();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    (word, rest.trim_start())
}

fn read_command<'a>(word: &str, rest: &'a str) -> Option<Command<'a>> {
    Some(match word.to_ascii_lowercase().as_str() {
        "say" => Command::Say(rest),
        _ if rest.is_empty() => return None,
        "think" => Command::Think(rest),
        "call" => read_call(rest),
        "fail" => read_fail(rest),
        "wait" => Command::Wait(rest.parse().map(Duration::from_millis).ok()?.min(MAX_WAIT)),
        _ => return None,
    })
}

fn read_call(rest: &str) -> Command<'_> {
    let end = rest.find(|c: char| c.is_whitespace() || c == '{');
    let (name, args) = rest.split_at(end.unwrap_or(rest.len()));
    let args = match args.trim() {
        "" => Value::Object(Map::new()),
        // Invalid JSON is passed on verbatim: the runtime must handle it, and this makes that testable.
        args => serde_json::from_str(args).unwrap_or_else(|_| Value::String(args.to_owned())),
    };
    Command::Call { name, args }
}

fn read_fail(rest: &str) -> Command<'_> {
    let (name, times) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let known = KINDS.iter().find(|(kind, _)| kind.eq_ignore_ascii_case(name));
    let times = match times.trim() {
        "" => Ok(None),
        times => times.parse().map(Some),
    };
    match (known, times) {
        (Some((_, kind)), Ok(times)) => Command::Fail { kind: *kind, times },
        _ => Command::Remark(fail_usage(rest)),
    }
}

fn fail_usage(rest: &str) -> String {
    let shortened: String = rest.chars().take(60).collect();
    let kinds: Vec<_> = KINDS.iter().map(|(name, _)| *name).collect();
    format!(
        "I cannot `fail {shortened}`. It is `fail KIND`, or `fail KIND N` to fail the first N times; the kinds are {}.",
        kinds.join(", ")
    )
}
