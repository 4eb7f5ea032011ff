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
    fn event(&mut self, event: &Event<'_>, deltas: DeltaSink<'_>) -> Result<(), ModelError>;

    /// Returns the answer, or says that the stream was cut.
    fn finish(self: Box<Self>) -> Result<Answer, ModelError>;
}

/// What a caller may ask by name, and who can be asked it. A session keeps what it was told when it goes on with
/// a model of another provider, which would refuse the whole request.
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

/// Says whether a parameter is one that only other providers take. Of a server of the user's own nobody knows
/// what it takes.
pub(crate) fn is_for_others(provider: Provider, key: &str) -> bool {
    let is_known = matches!(provider, Provider::Anthropic | Provider::OpenAi | Provider::Gemini);
    let takers = NAMED_PARAMS.iter().find(|(name, _)| *name == key).map(|(_, takers)| *takers);
    is_known && takers.is_some_and(|takers| !takers.contains(&provider))
}

/// Makes an error of a provider, which may have left its reason blank.
pub(crate) fn error(provider: Provider, kind: ModelErrorKind, message: impl Into<String>) -> ModelError {
    let mut message = message.into();
    if message.trim().is_empty() {
        message = "the provider gave no reason".to_owned();
    }
    ModelError { kind, provider, status: None, retry_after: None, message }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_session_was_told_for_one_provider_is_not_told_to_another() {
        let taken_by = |key: &str| -> Vec<Provider> {
            Provider::ALL.into_iter().filter(|provider| !is_for_others(*provider, key)).collect()
        };
        let rest = [Provider::SelfHosted, Provider::Other];
        assert_eq!(taken_by("reasoning_effort"), [&[Provider::OpenAi][..], &rest].concat());
        assert_eq!(taken_by("thinking_level"), [&[Provider::Gemini][..], &rest].concat());
        assert_eq!(taken_by("effort"), [&[Provider::Anthropic][..], &rest].concat());
        assert_eq!(taken_by("anything_else"), Provider::ALL);
    }
}
