//! OpenAI Responses: the format of OpenAI's models, and of servers of the user's own that speak like them.
//!
//! Nothing is kept on the provider's side: every call carries the whole conversation, reasoning included in
//! the encrypted form in which it came.

mod errors;
mod input;
mod item;
mod quick;
mod request;
mod stream;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use meerkat_core::{Model, ModelInfo, ModelRequest, Provider};
use serde_json::Value;

use crate::client::{Endpoint, Http, WireModel};
use crate::wire::{Body, Decode, Refusal, Wire};

pub(crate) use errors::{in_stream as refused_in_answer, refusal};

/// Makes a model that is reached by OpenAI Responses.
///
/// Errors carry the provider that `info` names. The endpoint's base URL may end with `/v1` or not, and no
/// authorization is sent where its key is empty.
#[must_use]
pub fn responses(info: ModelInfo, mut endpoint: Endpoint, http: Http) -> Arc<dyn Model> {
    endpoint.base_url = without_version(&endpoint.base_url).to_owned();
    let wire = Responses { provider: info.provider };
    Arc::new(WireModel { wire, info, endpoint, http })
}

/// Takes the version off a base URL, since the path has it.
pub(crate) fn without_version(base_url: &str) -> &str {
    let base = base_url.trim_end_matches('/');
    base.strip_suffix("/v1").unwrap_or(base).trim_end_matches('/')
}

/// The wire format.
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

    fn refusal(&self, status: u16, body: &Value) -> Refusal {
        errors::refusal(status, body)
    }
}
