//! Reading what a provider sends, apart from how it arrives: an answer piece by piece, or a refusal.

use std::time::Duration;

use meerkat_core::{Answer, DeltaSink, ModelError, ModelErrorKind, Provider};
use serde_json::Value;

use crate::sse::{Parser, SseError};
use crate::wire::{Decode, Refusal, error};

/// How much of an error is shown.
const MAX_MESSAGE: usize = 600;

/// The longest answer that is read; no model writes that much.
const MAX_ANSWER: usize = 64 * 1024 * 1024;

/// An answer on its way.
pub(crate) struct Reader {
    provider: Provider,
    length: usize,
    parser: Parser,
    decoder: Box<dyn Decode>,
}

/// Why the reading ends early.
enum Stop {
    NoStream(SseError),
    Failed(ModelError),
}

impl From<SseError> for Stop {
    fn from(error: SseError) -> Self {
        Self::NoStream(error)
    }
}

impl Reader {
    /// Begins to read a provider's answer in the format of the decoder.
    pub(crate) fn new(provider: Provider, decoder: Box<dyn Decode>) -> Self {
        Self { provider, length: 0, parser: Parser::default(), decoder }
    }

    /// Takes more of the stream, cut anywhere. An error ends the reading.
    pub(crate) fn feed(&mut self, bytes: &[u8], deltas: DeltaSink<'_>) -> Result<(), ModelError> {
        self.length = self.length.saturating_add(bytes.len());
        if self.length > MAX_ANSWER {
            let message = format!("the answer is longer than {MAX_ANSWER} bytes");
            return Err(error(self.provider, ModelErrorKind::Malformed, message));
        }
        let Self { parser, decoder, provider, .. } = self;
        let fed = parser.feed(bytes, |event| decoder.event(event, deltas).map_err(Stop::Failed));
        fed.map_err(|stop| match stop {
            Stop::NoStream(reason) => error(*provider, ModelErrorKind::Malformed, reason.to_string()),
            Stop::Failed(failure) => failure,
        })
    }

    /// Returns the answer, or says that the stream was cut.
    pub(crate) fn finish(self) -> Result<Answer, ModelError> {
        self.decoder.finish()
    }
}

/// Reads a refusal: what it is, and how long the body asks us to wait.
pub(crate) type ReadRefusal<'a> = &'a (dyn Fn(u16, &Value) -> (Refusal, Option<Duration>) + Send + Sync);

/// What came instead of an answer.
pub(crate) struct Refused<'a> {
    pub(crate) provider: Provider,
    pub(crate) status: u16,
    /// How long the header asks us to wait.
    pub(crate) wait: Option<Duration>,
    pub(crate) text: &'a str,
}

/// Makes an error of it.
pub(crate) fn refusal(refused: &Refused<'_>, read: ReadRefusal<'_>) -> ModelError {
    let body = serde_json::from_str(refused.text).unwrap_or(Value::Null);
    let (refusal, in_body) = read(refused.status, &body);
    let message = if refusal.message.trim().is_empty() { plain(refused.text) } else { refusal.message };
    let message: String = message.chars().take(MAX_MESSAGE).collect();
    ModelError {
        kind: refusal.kind,
        provider: refused.provider,
        status: Some(refused.status),
        retry_after: refused.wait.or(in_body),
        message: format!("HTTP {}: {message}", refused.status),
    }
}

/// Takes the text out of an HTML error page.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut in_tag = false;
    for c in text.chars().take(20_000) {
        match c {
            '<' => in_tag = true,
            '>' => {
                in_tag = false;
                out.push(' ');
            }
            c if !in_tag => out.push(c),
            _ => {}
        }
    }
    let words: Vec<_> = out.split_whitespace().collect();
    if words.is_empty() { "no further explanation".to_owned() } else { words.join(" ") }
}
