//! Decoding of what a provider sends, independent of transport: a response piece by piece, or an error.

use std::time::Duration;

use meerkat_core::{DeltaSink, ModelError, ModelErrorKind, ModelResponse, Provider};
use serde_json::Value;

use crate::sse::{Parser, SseError};
use crate::wire::{Decode, Refusal, error};

/// Maximum number of characters of an error message.
const MAX_MESSAGE: usize = 600;

/// Maximum size of a response in bytes; no model writes that much.
const MAX_ANSWER: usize = 64 * 1024 * 1024;

/// A response being received.
pub(crate) struct Reader {
    provider: Provider,
    length: usize,
    parser: Parser,
    decoder: Box<dyn Decode>,
}

/// Reason that decoding ends early.
enum Stop {
    InvalidStream(SseError),
    Failed(ModelError),
}

impl From<SseError> for Stop {
    fn from(error: SseError) -> Self {
        Self::InvalidStream(error)
    }
}

impl Reader {
    /// Creates a reader for a provider's response in the format of the decoder.
    pub(crate) fn new(provider: Provider, decoder: Box<dyn Decode>) -> Self {
        Self { provider, length: 0, parser: Parser::default(), decoder }
    }

    /// Processes more of the stream, split at any byte. An error ends decoding.
    pub(crate) fn feed(&mut self, bytes: &[u8], deltas: DeltaSink<'_>) -> Result<(), ModelError> {
        self.length = self.length.saturating_add(bytes.len());
        if self.length > MAX_ANSWER {
            let message = format!("the response is longer than {MAX_ANSWER} bytes");
            return Err(error(self.provider, ModelErrorKind::Malformed, message));
        }
        let Self { parser, decoder, provider, .. } = self;
        let fed = parser.feed(bytes, |event| decoder.event(event, deltas).map_err(Stop::Failed));
        fed.map_err(|stop| match stop {
            Stop::InvalidStream(reason) => error(*provider, ModelErrorKind::Malformed, reason.to_string()),
            Stop::Failed(failure) => failure,
        })
    }

    /// Returns the response, or an error if the stream was cut off.
    pub(crate) fn finish(self) -> Result<ModelResponse, ModelError> {
        self.decoder.finish()
    }
}

/// Parses an error: its kind and message, and the delay that the body requests.
pub(crate) type ReadRefusal<'a> = &'a (dyn Fn(u16, &Value) -> (Refusal, Option<Duration>) + Send + Sync);

/// An error received instead of a response.
pub(crate) struct Refused<'a> {
    pub(crate) provider: Provider,
    pub(crate) status: u16,
    /// Delay requested by the header.
    pub(crate) wait: Option<Duration>,
    pub(crate) text: &'a str,
}

/// Converts it into an error.
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

/// Extracts the text of an HTML error page.
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
