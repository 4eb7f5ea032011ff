//! The interface of a wire format: building requests and decoding responses. Pure; [`crate::client`] does the
//! network access.

use std::time::Duration;

use meerkat_core::{DeltaSink, ModelError, ModelErrorKind, ModelInfo, ModelRequest, ModelResponse, Provider};
use serde_json::{Map, Value};

use crate::sse::{Event, SseError};

/// A wire format.
pub(crate) trait Wire: Send + Sync + 'static {
    /// The provider that uses it.
    fn provider(&self) -> Provider;

    /// The path of a request below the base URL, for example `/v1/messages`.
    fn path(&self, info: &ModelInfo) -> String;

    /// The headers of a request in addition to `content-type`; the key is the user's and must not be sent
    /// elsewhere.
    fn headers(&self, key: &str) -> Vec<(&'static str, String)>;

    /// Builds the body of a streaming request.
    fn body(&self, info: &ModelInfo, request: &ModelRequest) -> Body;

    /// The headers that depend on the body, for example those that enable features by name.
    fn headers_for(&self, _body: &Value) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Creates a decoder for one response.
    fn decoder(&self) -> Box<dyn Decode>;

    /// Creates a decoder for the response to this request, if decoding depends on the request.
    fn decoder_for(&self, _request: &ModelRequest) -> Box<dyn Decode> {
        self.decoder()
    }

    /// Parses an error from the status and the body, which is null if it is not JSON.
    fn refusal(&self, status: u16, body: &Value) -> Failure;

    /// Returns the delay that the provider requests, if it is in the error's body and not in a header.
    fn retry_after(&self, _body: &Value) -> Option<Duration> {
        None
    }
}

/// A request body.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Body {
    /// The body as JSON.
    pub(crate) json: Value,
    /// Omitted tools, each with the reason.
    pub(crate) left_out: Vec<(String, String)>,
}

/// An error that a provider reported, or a violation of the format. It does not name the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Kind of failure.
    pub(crate) kind: ModelErrorKind,
    /// The provider's message, or what is malformed.
    pub(crate) message: String,
    /// The status, if it is part of a stream.
    pub(crate) status: Option<u16>,
    /// The delay that the provider requests, if it is part of a stream.
    pub(crate) retry_after: Option<Duration>,
}

impl Failure {
    pub(crate) fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), status: None, retry_after: None }
    }

    /// Creates the failure of a stream that ends too early.
    #[cfg(any(feature = "anthropic", feature = "chat", feature = "responses"))]
    pub(crate) fn cut_off() -> Self {
        Self::new(ModelErrorKind::StreamCut, "the stream ended before the response did")
    }

    /// Replaces a blank message.
    #[cfg(any(feature = "chat", feature = "gemini", feature = "responses"))]
    pub(crate) fn or(mut self, message: &str) -> Self {
        if self.message.trim().is_empty() {
            message.clone_into(&mut self.message);
        }
        self
    }

    /// Adds where the response is malformed; does not change other failures.
    #[cfg(any(feature = "chat", feature = "gemini", feature = "responses"))]
    pub(crate) fn within(mut self, place: &str) -> Self {
        if self.kind == ModelErrorKind::Malformed {
            self.message = format!("{place}: {}", self.message);
        }
        self
    }

    /// Converts it to an error of a provider.
    pub(crate) fn of(self, provider: Provider) -> ModelError {
        let Self { kind, message, status, retry_after } = self;
        ModelError { status, retry_after, ..error(provider, kind, message) }
    }
}

/// A response is malformed.
impl From<String> for Failure {
    fn from(what: String) -> Self {
        Self::new(ModelErrorKind::Malformed, what)
    }
}

impl From<&str> for Failure {
    fn from(what: &str) -> Self {
        what.to_owned().into()
    }
}

impl From<SseError> for Failure {
    fn from(error: SseError) -> Self {
        error.to_string().into()
    }
}

/// Decodes one response, event by event.
pub(crate) trait Decode: Send {
    /// Processes an event. Unknown events are ignored; an event that violates the format is an error.
    fn event(&mut self, event: &Event<'_>, deltas: DeltaSink<'_>) -> Result<(), Failure>;

    /// Returns the response, or an error if the stream was cut off.
    fn finish(self: Box<Self>) -> Result<ModelResponse, Failure>;
}

/// Parameters that a caller may set by name, and the providers that accept each. A session keeps its parameters
/// when it continues with a model of another provider, which would reject the whole request.
const NAMED_PARAMS: [(&str, &[Provider]); 13] = [
    ("thinking", &[Provider::Anthropic, Provider::Gemini]),
    ("thinking_budget", &[Provider::Anthropic, Provider::Gemini]),
    ("thinking_level", &[Provider::Gemini]),
    ("effort", &[Provider::Anthropic]),
    ("compaction", &[Provider::Anthropic]),
    ("inference_geo", &[Provider::Anthropic]),
    ("reasoning_effort", &[Provider::OpenAi]),
    ("seed", &[Provider::OpenAi, Provider::Gemini]),
    ("frequency_penalty", &[Provider::OpenAi, Provider::Gemini]),
    ("presence_penalty", &[Provider::OpenAi, Provider::Gemini]),
    ("top_k", &[Provider::Anthropic, Provider::Gemini]),
    ("web_search", &[Provider::Anthropic, Provider::OpenAi]),
    ("google_search", &[Provider::Gemini]),
];

/// Returns `true` if only other providers accept a parameter. The parameters of self-hosted servers are not known.
fn is_for_others(provider: Provider, key: &str) -> bool {
    let is_known = matches!(provider, Provider::Anthropic | Provider::OpenAi | Provider::Gemini);
    let providers = NAMED_PARAMS.iter().find(|(name, _)| *name == key).map(|(_, providers)| *providers);
    is_known && providers.is_some_and(|providers| !providers.contains(&provider))
}

/// Returns `true` if a parameter of the caller is not passed on: the request sets it, or only other providers accept it.
pub(crate) fn is_reserved(provider: Provider, key: &str) -> bool {
    const RESERVED: [&str; 6] = ["messages", "input", "contents", "tools", "stream", "model"];
    RESERVED.contains(&key) || is_for_others(provider, key)
}

/// Creates an object from the fields that have a value.
pub(crate) fn object<const N: usize>(fields: [(&str, Option<Value>); N]) -> Map<String, Value> {
    fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

/// Returns the system prompt, unless it is blank.
pub(crate) fn system(request: &ModelRequest) -> Option<&str> {
    Some(request.system.as_str()).filter(|text| !text.trim().is_empty())
}

/// Returns a name with at most `max` characters, all of which every provider accepts.
pub(crate) fn plain_name(name: &str, max: usize, default: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    if name.is_empty() { default.to_owned() } else { name.chars().take(max).map(plain).collect() }
}

/// Creates an error of a provider, with a default message if the provider's is blank.
pub(crate) fn error(provider: Provider, kind: ModelErrorKind, message: impl Into<String>) -> ModelError {
    let mut message = message.into();
    if message.trim().is_empty() {
        message = "the provider gave no reason".to_owned();
    }
    ModelError { kind, provider, status: None, retry_after: None, message }
}

/// Classifies an HTTP status; a wire format refines it based on the body.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn params_of_other_providers_are_recognized() {
        let providers_accepting = |key: &str| -> Vec<Provider> {
            Provider::ALL.into_iter().filter(|provider| !is_for_others(*provider, key)).collect()
        };
        let rest = [Provider::SelfHosted, Provider::Other];
        assert_eq!(providers_accepting("reasoning_effort"), [&[Provider::OpenAi][..], &rest].concat());
        assert_eq!(providers_accepting("thinking_level"), [&[Provider::Gemini][..], &rest].concat());
        assert_eq!(providers_accepting("effort"), [&[Provider::Anthropic][..], &rest].concat());
        assert_eq!(providers_accepting("anything_else"), Provider::ALL);
    }
}
