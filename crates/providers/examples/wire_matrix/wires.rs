//! The models to call: one for each format, API version, and type of server.

use std::sync::Arc;

use meerkat_core::{Model, ModelInfo, ModelProfile, Provider};
use meerkat_fetch::Http;
use meerkat_providers::{Catalog, Endpoint, Secret, anthropic, chat, gemini, responses};
use serde_json::{Value, json};

/// A wire format and the type of server behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    Anthropic2023,
    Anthropic2026,
    Responses,
    /// Responses, on a self-hosted server.
    OwnResponses,
    Chat,
    /// Chat Completions, on a self-hosted server.
    OwnChat,
    GeminiBeta,
    /// A model generation that does not require signatures, on the stable API.
    GeminiV1,
}

impl Wire {
    pub(crate) const ALL: [Self; 8] = [
        Self::Anthropic2023,
        Self::Anthropic2026,
        Self::Responses,
        Self::OwnResponses,
        Self::Chat,
        Self::OwnChat,
        Self::GeminiBeta,
        Self::GeminiV1,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Anthropic2023 => "anthropic-2023",
            Self::Anthropic2026 => "anthropic-2026",
            Self::Responses => "responses",
            Self::OwnResponses => "own-responses",
            Self::Chat => "chat",
            Self::OwnChat => "own-chat",
            Self::GeminiBeta => "gemini-v1beta",
            Self::GeminiV1 => "gemini-v1",
        }
    }

    pub(crate) const fn is_anthropic(self) -> bool {
        matches!(self, Self::Anthropic2023 | Self::Anthropic2026)
    }

    pub(crate) const fn is_own(self) -> bool {
        matches!(self, Self::OwnResponses | Self::OwnChat)
    }

    pub(crate) fn model(self, base_url: &str, http: &Http) -> Arc<dyn Model> {
        let endpoint = Endpoint { base_url: base_url.to_owned(), key: Secret::new("key-of-nobody") };
        let (info, http) = (self.info(), http.clone());
        match self {
            Self::Anthropic2023 | Self::Anthropic2026 => {
                let version = if self == Self::Anthropic2023 { "2023-06-01" } else { "2026-10-21" };
                anthropic(info, endpoint, http, Some(version))
            }
            Self::Responses | Self::OwnResponses => responses(info, endpoint, http),
            Self::Chat | Self::OwnChat => {
                let remote_model = info.id.clone();
                chat(info, remote_model, endpoint, http)
            }
            Self::GeminiBeta | Self::GeminiV1 => {
                let version = if self == Self::GeminiBeta { "v1beta" } else { "v1" };
                gemini(info, endpoint, http, Some(version))
            }
        }
    }

    fn info(self) -> ModelInfo {
        let catalog = Catalog::built_in();
        match self {
            Self::Anthropic2023 | Self::Anthropic2026 => catalog.info("claude-opus-4-6", Provider::Anthropic),
            Self::Responses | Self::Chat => catalog.info("gpt-5.5", Provider::OpenAi),
            Self::GeminiBeta => catalog.info("gemini-3-flash-preview", Provider::Gemini),
            Self::GeminiV1 => catalog.info("gemini-2.5-flash", Provider::Gemini),
            Self::OwnResponses | Self::OwnChat => {
                let profile = ModelProfile {
                    supports_temperature: true,
                    vision: true,
                    image_tool_results: true,
                    ..ModelProfile::default()
                };
                ModelInfo { profile, ..ModelInfo::new("local", Provider::SelfHosted) }
            }
        }
    }

    /// Returns parameters that make the model think.
    pub(crate) fn thinking(self) -> Value {
        match self {
            Self::Anthropic2023 => json!({ "thinking": { "type": "enabled", "budget_tokens": 2048 } }),
            Self::Anthropic2026 => json!({ "thinking": "adaptive", "effort": "high" }),
            Self::GeminiBeta => json!({ "thinking_level": "high" }),
            Self::GeminiV1 => json!({ "thinking_budget": 1024 }),
            Self::Responses | Self::OwnResponses | Self::Chat | Self::OwnChat => {
                json!({ "reasoning_effort": "high" })
            }
        }
    }

    /// Returns the parameters that enable the provider's own web search.
    pub(crate) fn search(self) -> Value {
        match self {
            Self::Anthropic2023 | Self::Anthropic2026 => {
                json!({ "web_search": { "type": "web_search_20250305", "name": "web_search" } })
            }
            Self::Responses | Self::Chat => json!({ "web_search": { "type": "web_search" } }),
            Self::GeminiBeta | Self::GeminiV1 => json!({ "google_search": {} }),
            Self::OwnResponses | Self::OwnChat => json!({}),
        }
    }

    /// Returns parameters of other kinds, each with its own place in the request.
    pub(crate) fn more(self) -> Value {
        match self {
            Self::Anthropic2023 => {
                json!({ "top_k": 5, "stop_sequences": ["END"], "metadata": { "user_id": "u" }, "max_tokens": 99 })
            }
            Self::Anthropic2026 => {
                json!({ "top_p": 0.5, "stop_sequences": ["END"], "tool_choice": { "type": "auto" }, "effort": "low" })
            }
            Self::Responses | Self::OwnResponses => {
                json!({ "top_p": 0.5, "text": { "verbosity": "low" }, "parallel_tool_calls": false })
            }
            Self::Chat | Self::OwnChat => json!({ "seed": 7, "stop": ["END"], "max_output_tokens": 99 }),
            Self::GeminiBeta | Self::GeminiV1 => json!({
                "top_k": 5, "seed": 7, "stop_sequences": ["END"], "temperature": 0.5, "max_output_tokens": 99,
                "generation_config": { "candidateCount": 1 },
            }),
        }
    }
}
