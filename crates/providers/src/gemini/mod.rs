//! Gemini's `streamGenerateContent`.
//!
//! Every chunk of a response is a complete response object; only a finish reason marks the end. Calls carry
//! signatures that must be sent back with them, and have no ids on older servers.

mod errors;
mod fast_path;
mod params;
mod request;
mod stream;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use meerkat_core::{Model, ModelInfo, ModelRequest, Provider};
use meerkat_fetch::Http;
use serde_json::Value;

use crate::client::WireModel;
use crate::endpoint::Endpoint;
use crate::wire::{Body, Decode, Failure, Wire};

pub(crate) use stream::is_filtered;

/// Default API version, used unless the base URL names another.
pub(crate) const VERSION: &str = "v1beta";

/// Key of a signature, in a part and in `meta`.
const SIGNATURE: &str = "thoughtSignature";

/// Keys of the parts that are stored verbatim and sent back unchanged.
const SERVER_PARTS: [&str; 6] =
    ["executableCode", "codeExecutionResult", "toolCall", "toolResponse", "inlineData", "fileData"];

/// Creates a model served by Gemini's `generateContent`.
///
/// Without a version, the API version is `v1beta`, or the last segment of the base URL if it is a version, as in
/// `https://generativelanguage.googleapis.com/v1`.
#[must_use]
pub fn gemini(info: ModelInfo, mut endpoint: Endpoint, http: Http, version: Option<&str>) -> Arc<dyn Model> {
    let version = match version {
        Some(version) => version.to_owned(),
        None => {
            let (base_url, version) = split_version(&endpoint.base_url);
            endpoint.base_url = base_url;
            version
        }
    };
    Arc::new(WireModel { wire: Gemini { version }, info, endpoint, http })
}

/// Splits a base URL into the base and the API version it may end in.
pub(crate) fn split_version(base_url: &str) -> (String, String) {
    let base_url = base_url.trim_end_matches('/');
    let is_version = |segment: &str| {
        segment.strip_prefix('v').is_some_and(|rest| {
            rest.starts_with(|c: char| c.is_ascii_digit()) && rest.chars().all(|c| c.is_ascii_alphanumeric())
        })
    };
    match base_url.rsplit_once('/') {
        Some((base, version)) if is_version(version) && !base.ends_with('/') => {
            (base.to_owned(), version.to_owned())
        }
        _ => (base_url.to_owned(), VERSION.to_owned()),
    }
}

/// Gemini's wire format.
pub(crate) struct Gemini {
    pub(crate) version: String,
}

impl Wire for Gemini {
    fn provider(&self) -> Provider {
        Provider::Gemini
    }

    fn path(&self, info: &ModelInfo) -> String {
        let dir = if info.id.contains('/') { "" } else { "models/" };
        format!("/{}/{dir}{}:streamGenerateContent?alt=sse", self.version, info.id)
    }

    fn headers(&self, key: &str) -> Vec<(&'static str, String)> {
        if key.is_empty() { Vec::new() } else { vec![("x-goog-api-key", key.to_owned())] }
    }

    fn body(&self, info: &ModelInfo, request: &ModelRequest) -> Body {
        request::body(info, request)
    }

    fn decoder(&self) -> Box<dyn Decode> {
        Box::new(stream::Decoder::default())
    }

    fn refusal(&self, status: u16, body: &Value) -> Failure {
        errors::refusal(status, body)
    }

    fn retry_after(&self, body: &Value) -> Option<Duration> {
        errors::retry_after(body)
    }
}
