//! OpenAI's Chat Completions, as implemented by self-hosted servers: llama.cpp, Ollama, vLLM, LM Studio.
//!
//! Servers differ in details. Requests use only what all of them accept. The decoder allows every deviation that is
//! unambiguous, and rejects all others.

mod calls;
mod errors;
mod fast_path;
mod messages;
mod request;
mod stream;
#[cfg(test)]
mod tests;
mod text_calls;
mod think;

use std::sync::Arc;

use meerkat_core::{Model, ModelInfo, ModelRequest, Provider};
use meerkat_fetch::Http;
use serde_json::Value;

use crate::client::WireModel;
use crate::endpoint::Endpoint;
use crate::wire::{Body, Decode, Failure, Wire};

const PATH: &str = "/chat/completions";

/// Creates a model behind Chat Completions.
///
/// `info.id` is Meerkat's name for it, `remote_model` the server's name. The base URL may end with a version such
/// as `/v1`; otherwise `/v1` is appended.
pub fn chat(info: ModelInfo, remote_model: String, endpoint: Endpoint, http: Http) -> Arc<dyn Model> {
    let wire = Chat { provider: info.provider, remote_model };
    let endpoint = Endpoint { base_url: versioned(&endpoint.base_url), ..endpoint };
    Arc::new(WireModel { wire, info, endpoint, http })
}

/// Wire format of one model.
pub(crate) struct Chat {
    pub(crate) provider: Provider,
    pub(crate) remote_model: String,
}

impl Wire for Chat {
    fn provider(&self) -> Provider {
        self.provider
    }

    fn path(&self, _info: &ModelInfo) -> String {
        PATH.to_owned()
    }

    fn headers(&self, key: &str) -> Vec<(&'static str, String)> {
        if key.is_empty() { Vec::new() } else { vec![("authorization", format!("Bearer {key}"))] }
    }

    fn body(&self, info: &ModelInfo, request: &ModelRequest) -> Body {
        request::body(&self.remote_model, info, request)
    }

    fn decoder(&self) -> Box<dyn Decode> {
        Box::new(stream::Decoder::new(self.provider))
    }

    fn decoder_for(&self, request: &ModelRequest) -> Box<dyn Decode> {
        let decoder = stream::Decoder::new(self.provider);
        // If calls are not possible, text that looks like a call is just text.
        let may_call = !request.tools.is_empty() && request.output_schema.is_none();
        Box::new(if may_call { decoder } else { decoder.without_text_calls() })
    }

    fn refusal(&self, status: u16, body: &Value) -> Failure {
        errors::refusal(Some(status), body)
    }
}

/// Returns the base URL with its version, however much of the path it already includes.
fn versioned(base_url: &str) -> String {
    let base = base_url.trim().trim_end_matches('/');
    let base = base.strip_suffix(PATH).unwrap_or(base).trim_end_matches('/');
    let last = base.rsplit('/').next().unwrap_or_default();
    let digits = last.strip_prefix('v').unwrap_or_default();
    let has_version = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if has_version { base.to_owned() } else { format!("{base}/v1") }
}
