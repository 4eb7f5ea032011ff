//! What a wire format is: how a request looks, how an answer is read. Pure; reaching the provider is
//! [`crate::client`]'s business.

use std::time::Duration;

use meerkat_core::{Answer, DeltaSink, ModelError, ModelErrorKind, ModelInfo, ModelRequest, Provider};
use serde_json::Value;

use crate::sse::Event;

/// A wire format.
pub(crate) trait Wire: Send + Sync + 'static {
    /// Who speaks it.
    fn provider(&self) -> Provider;

    /// Where a call goes, below the base URL, for example `/v1/messages`.
    fn path(&self, info: &ModelInfo) -> String;

    /// The headers of a call besides `content-type`; the key is the user's and must go nowhere else.
    fn headers(&self, key: &str) -> Vec<(&'static str, String)>;

    /// Makes the body of a streaming call.
    fn body(&self, info: &ModelInfo, request: &ModelRequest) -> Body;

    /// The headers that depend on what is sent, for example those that ask for features by name.
    fn headers_for(&self, _body: &Value) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Makes a decoder for one answer.
    fn decoder(&self) -> Box<dyn Decode>;

    /// Makes a decoder for the answer to this request, where it matters what was asked.
    fn decoder_for(&self, _request: &ModelRequest) -> Box<dyn Decode> {
        self.decoder()
    }

    /// Reads the error that came instead of an answer: the status, and the body as JSON if it is.
    fn refusal(&self, status: u16, body: &Value) -> Refusal;

    /// Reads how long the provider asks us to wait, where it says so in the error's body and not in a header.
    fn retry_after(&self, _body: &Value) -> Option<Duration> {
        None
    }
}

/// The body of a call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Body {
    /// What is sent.
    pub(crate) json: Value,
    /// The tools that were left out, each with the reason.
    pub(crate) left_out: Vec<(String, String)>,
}

/// What a provider said when it refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// What sort of failure it is.
    pub(crate) kind: ModelErrorKind,
    /// What it said, for people.
    pub(crate) message: String,
}

/// Reads one answer, event by event.
pub(crate) trait Decode: Send {
    /// Takes an event. Unknown events are passed over; one that contradicts the format is an error.
    fn event(&mut self, event: &Event, deltas: DeltaSink<'_>) -> Result<(), ModelError>;

    /// Returns the answer, or says that the stream was cut.
    fn finish(self: Box<Self>) -> Result<Answer, ModelError>;
}

/// Makes an error of a provider.
pub(crate) fn error(provider: Provider, kind: ModelErrorKind, message: impl Into<String>) -> ModelError {
    ModelError { kind, provider, status: None, retry_after: None, message: message.into() }
}

/// Sorts an HTTP status; a wire format refines it by what the body says.
pub(crate) fn kind_of_status(status: u16) -> ModelErrorKind {
    match status {
        401 | 403 => ModelErrorKind::Auth,
        408 | 504 => ModelErrorKind::NetworkTimeout,
        413 => ModelErrorKind::ContextOverflow,
        429 => ModelErrorKind::RateLimited,
        503 | 529 => ModelErrorKind::Overloaded,
        500.. => ModelErrorKind::Server,
        _ => ModelErrorKind::BadRequest,
    }
}
