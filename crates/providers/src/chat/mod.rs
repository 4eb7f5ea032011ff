//! OpenAI's Chat Completions, as servers of the user's own speak it: llama.cpp, Ollama, vLLM, LM Studio.
//!
//! Each server has habits of its own. What is sent keeps to what all of them take; what is read allows for
//! every habit that leaves the meaning clear, and refuses what does not.

mod calls;
mod errors;
mod messages;
mod quick;
mod request;
mod spoken;
mod stream;
#[cfg(test)]
mod tests;
mod think;

use std::sync::Arc;

use meerkat_core::{Model, ModelInfo, ModelRequest, Provider};
use serde_json::Value;

use crate::client::{Endpoint, Http, WireModel};
use crate::wire::{Body, Decode, Refusal, Wire};

const PATH: &str = "/chat/completions";

/// Makes a model behind Chat Completions.
///
/// `info.id` is what we call it, `remote_model` what its server does. The base URL may end with a version
/// such as `/v1` or not; without one, `/v1` is meant.
pub fn chat(info: ModelInfo, remote_model: String, endpoint: Endpoint, http: Http) -> Arc<dyn Model> {
    let wire = Chat { provider: info.provider, remote_model };
    let endpoint = Endpoint { base_url: versioned(&endpoint.base_url), ..endpoint };
    Arc::new(WireModel { wire, info, endpoint, http })
}

/// The wire format of one model.
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
        // Where no call can be meant, an answer that looks like one is an answer.
        let may_call = !request.tools.is_empty() && request.output_schema.is_none();
        Box::new(if may_call { decoder } else { decoder.taking_text_as_text() })
    }

    fn refusal(&self, status: u16, body: &Value) -> Refusal {
        errors::refusal(Some(status), body)
    }
}

/// Returns the base URL with its version, whatever of the path its author already wrote.
fn versioned(base_url: &str) -> String {
    let base = base_url.trim().trim_end_matches('/');
    let base = base.strip_suffix(PATH).unwrap_or(base).trim_end_matches('/');
    let last = base.rsplit('/').next().unwrap_or_default();
    let digits = last.strip_prefix('v').unwrap_or_default();
    let has_version = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if has_version { base.to_owned() } else { format!("{base}/v1") }
}
