//! OpenAI Responses: the format of OpenAI's models and of compatible self-hosted servers.
//!
//! Nothing is stored on the provider's side: every request carries the full conversation, including reasoning in
//! the encrypted form in which it was received.

mod errors;
mod fast_path;
mod input;
mod item;
mod request;
mod stream;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use meerkat_core::{Model, ModelInfo, ModelRequest, Provider};
use meerkat_fetch::Http;
use serde_json::Value;

use crate::client::WireModel;
use crate::endpoint::Endpoint;
use crate::wire::{Body, Decode, Failure, Wire};

pub(crate) use errors::in_stream as refused_in_answer;

/// Creates a model served by OpenAI Responses.
///
/// Errors name the provider from `info`. The endpoint's base URL may end with `/v1`, and no authorization is sent
/// if its key is empty.
#[must_use]
pub fn responses(info: ModelInfo, mut endpoint: Endpoint, http: Http) -> Arc<dyn Model> {
    endpoint.base_url = without_version(&endpoint.base_url).to_owned();
    let wire = Responses { provider: info.provider };
    Arc::new(WireModel { wire, info, endpoint, http })
}

/// Strips the version from a base URL, since the path contains it.
pub(crate) fn without_version(base_url: &str) -> &str {
    let base = base_url.trim_end_matches('/');
    base.strip_suffix("/v1").unwrap_or(base).trim_end_matches('/')
}

/// The wire format of OpenAI Responses.
pub(crate) struct Responses {
    pub(crate) provider: Provider,
}

impl Wire for Responses {
    fn provider(&self) -> Provider {
        self.provider
    }

    fn path(&self, _: &ModelInfo) -> String {
        "/v1/responses".to_owned()
    }

    fn headers(&self, key: &str) -> Vec<(&'static str, String)> {
        if key.is_empty() { Vec::new() } else { vec![("authorization", format!("Bearer {key}"))] }
    }

    fn body(&self, info: &ModelInfo, request: &ModelRequest) -> Body {
        request::body(info, request)
    }

    fn decoder(&self) -> Box<dyn Decode> {
        Box::new(stream::Decoder::new(self.provider))
    }

    fn refusal(&self, status: u16, body: &Value) -> Failure {
        errors::refusal(status, body)
    }
}
