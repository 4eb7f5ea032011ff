//! Anthropic's Messages API.
//!
//! Owns the format of requests and the parsing of the event stream. The capabilities of a model come from its
//! [`ModelInfo`]; [`crate::schema`] decides which tools and schemas are accepted.

mod blocks;
mod errors;
mod fast_path;
mod messages;
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

/// API version in which more features are enabled by name and sampling parameters are accepted.
pub(crate) const VERSION_2023: &str = "2023-06-01";

/// Creates a model served by Anthropic's Messages API.
///
/// The version is that in the header `anthropic-version`, by default `2023-06-01`. Later versions, such as `2026-10-21`,
/// do not accept sampling parameters, and none are sent.
#[must_use]
pub fn anthropic(info: ModelInfo, endpoint: Endpoint, http: Http, version: Option<&str>) -> Arc<dyn Model> {
    let wire = Messages { version: version.unwrap_or(VERSION_2023).to_owned() };
    Arc::new(WireModel { wire, info, endpoint, http })
}

/// Anthropic's wire format.
pub(crate) struct Messages {
    pub(crate) version: String,
}

impl Messages {
    fn is_2023(&self) -> bool {
        self.version == VERSION_2023
    }
}

impl Wire for Messages {
    fn provider(&self) -> Provider {
        Provider::Anthropic
    }

    fn path(&self, _info: &ModelInfo) -> String {
        "/v1/messages".to_owned()
    }

    fn headers(&self, key: &str) -> Vec<(&'static str, String)> {
        let mut headers = vec![("anthropic-version", self.version.clone())];
        if !key.is_empty() {
            headers.push(("x-api-key", key.to_owned()));
        }
        headers
    }

    fn body(&self, info: &ModelInfo, request: &ModelRequest) -> Body {
        let sampling = if self.is_2023() { request::Sampling::Accepted } else { request::Sampling::Rejected };
        request::body(info, request, sampling)
    }

    fn headers_for(&self, body: &Value) -> Vec<(&'static str, String)> {
        let mut betas = if self.is_2023() { request::older_betas(body) } else { Vec::new() };
        betas.extend(request::beta(body));
        if betas.is_empty() { Vec::new() } else { vec![("anthropic-beta", betas.join(","))] }
    }

    fn decoder(&self) -> Box<dyn Decode> {
        Box::new(stream::Decoder::default())
    }

    fn refusal(&self, status: u16, body: &Value) -> Failure {
        errors::refusal(status, body)
    }
}
