//! Decoding of what a provider sends, independent of transport: a response piece by piece, or an error.

use std::time::Duration;

use meerkat_core::{DeltaSink, ModelError, ModelResponse, Provider};
use serde_json::Value;

use crate::sse::Parser;
use crate::wire::{Decode, Failure, Wire};

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

impl Reader {
    /// Creates a reader for a provider's response in the format of the decoder.
    pub(crate) fn new(provider: Provider, decoder: Box<dyn Decode>) -> Self {
        Self { provider, length: 0, parser: Parser::default(), decoder }
    }

    /// Processes more of the stream, split at any byte. An error ends decoding.
    pub(crate) fn feed(&mut self, bytes: &[u8], deltas: DeltaSink<'_>) -> Result<(), ModelError> {
        self.decode(bytes, deltas).map_err(|failure| failure.of(self.provider))
    }

    fn decode(&mut self, bytes: &[u8], deltas: DeltaSink<'_>) -> Result<(), Failure> {
        self.length = self.length.saturating_add(bytes.len());
        if self.length > MAX_ANSWER {
            return Err(format!("the response is longer than {MAX_ANSWER} bytes").into());
        }
        self.parser.feed(bytes, |event| self.decoder.event(event, deltas))
    }

    /// Returns the response, or an error if the stream was cut off.
    pub(crate) fn finish(self) -> Result<ModelResponse, ModelError> {
        self.decoder.finish().map_err(|failure| failure.of(self.provider))
    }
}

/// Parses an error received instead of a response; `wait` is the delay that its header requests.
pub(crate) fn refusal(wire: &dyn Wire, status: u16, wait: Option<Duration>, text: &str) -> ModelError {
    let body = serde_json::from_str(text).unwrap_or(Value::Null);
    let Failure { kind, message, .. } = wire.refusal(status, &body);
    let message = if message.trim().is_empty() { plain(text) } else { message };
    let message: String = message.chars().take(MAX_MESSAGE).collect();
    ModelError {
        kind,
        provider: wire.provider(),
        status: Some(status),
        retry_after: wait.or_else(|| wire.retry_after(&body)),
        message: format!("HTTP {status}: {message}"),
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
