//! Reading what a provider sends, apart from how it arrives: an answer piece by piece, or a refusal.

use std::time::Duration;

use meerkat_core::{Answer, DeltaSink, ModelError, ModelErrorKind, Provider};
use serde_json::Value;

use crate::sse::{Parser, SseError};
use crate::wire::{Decode, Wire, error};

/// How much of an error is shown.
const MAX_MESSAGE: usize = 600;

/// An answer on its way.
pub(crate) struct Reader {
    provider: Provider,
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
    /// Begins to read an answer in a wire format.
    pub(crate) fn new(wire: &dyn Wire) -> Self {
        Self { provider: wire.provider(), parser: Parser::default(), decoder: wire.decoder() }
    }

    /// Takes more of the stream, cut anywhere. An error ends the reading.
    pub(crate) fn feed(&mut self, bytes: &[u8], deltas: DeltaSink<'_>) -> Result<(), ModelError> {
        let Self { parser, decoder, provider } = self;
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

/// Reads the error that came instead of an answer; `wait` is how long the header asks us to wait.
pub(crate) fn refusal(wire: &dyn Wire, status: u16, wait: Option<Duration>, text: &str) -> ModelError {
    let body = serde_json::from_str(text).unwrap_or(Value::Null);
    let refusal = wire.refusal(status, &body);
    let message = if refusal.message.is_empty() { plain(text) } else { refusal.message };
    let message: String = message.chars().take(MAX_MESSAGE).collect();
    ModelError {
        kind: refusal.kind,
        provider: wire.provider(),
        status: Some(status),
        retry_after: wait.or_else(|| wire.retry_after(&body)),
        message: format!("HTTP {status}: {message}"),
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
