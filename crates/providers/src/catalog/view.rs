//! The catalog as everybody sees it.

use meerkat_core::{ModelProfile, Provider};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Beta, CatalogueEntry, Flag, Group, params_schema};

/// The models of one provider.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ProviderGroup {
    /// The provider.
    pub provider: Provider,
    /// The model that is taken where only the provider is known.
    pub default_model_id: String,
    /// Its models, by id.
    pub models: Vec<ModelEntry>,
}

/// One model.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ModelEntry {
    /// Its id.
    pub id: String,
    /// Its name for people.
    pub display_name: String,
    /// How warmly it is offered.
    pub tier: ModelTier,
    /// How many tokens it can read at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// How many tokens it can write at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u32>,
    /// The user's own server that has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_id: Option<String>,
    /// What it can do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<ProfileEntry>,
}

/// How warmly a model is offered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModelTier {
    /// A good choice.
    Recommended,
    /// It works.
    #[default]
    Supported,
}

/// What a model can do.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the public catalog")]
pub struct ProfileEntry {
    /// The family it belongs to.
    pub model_family: String,
    /// It takes a temperature.
    pub supports_temperature: bool,
    /// It can be told to think before it answers.
    pub supports_thinking: bool,
    /// It reasons, with a settable effort.
    pub supports_reasoning: bool,
    /// The JSON Schema of the `provider_params` it takes.
    pub params_schema: Value,
    /// Its provider can search the web for it.
    pub supports_web_search: bool,
    /// It reads images in what the user says.
    pub vision: bool,
    /// The same as `vision`.
    pub image_input: bool,
    /// It reads images in tool results.
    pub image_tool_results: bool,
    /// It reads video in what the user says.
    pub inline_video: bool,
    /// It serves live channels, and only those.
    pub realtime: bool,
    /// Its provider can make images for it.
    pub image_generation: bool,
    /// The headers that switch on what its provider still calls a beta.
    pub beta_headers: Vec<BetaHeader>,
}

/// A header that switches something on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BetaHeader {
    /// What it switches on.
    pub feature: &'static str,
    /// The header.
    pub header_name: &'static str,
    /// What it must say.
    pub header_value: &'static str,
}

impl Group {
    pub(super) fn view(&self) -> ProviderGroup {
        let mut models: Vec<_> = self.models.iter().map(ModelEntry::of).collect();
        models.sort_by(|a, b| a.id.cmp(&b.id));
        ProviderGroup { provider: self.provider, default_model_id: self.default_model.clone(), models }
    }
}

impl ModelEntry {
    pub(super) fn of(entry: &CatalogueEntry) -> Self {
        let profile = ProfileEntry {
            params_schema: params_schema(entry),
            realtime: entry.has(Flag::Realtime),
            image_generation: entry.has(Flag::ImageGeneration),
            beta_headers: entry.beta_headers(),
            ..ProfileEntry::new(entry.model_family.clone(), entry.info().profile)
        };
        Self {
            id: entry.id.clone(),
            display_name: entry.display_name.clone(),
            tier: entry.tier,
            context_window: Some(entry.context_window),
            max_output_tokens: Some(entry.max_output_tokens),
            server_id: None,
            profile: Some(profile),
        }
    }
}

impl ProfileEntry {
    /// Describes a model that takes any parameters and needs no headers.
    #[must_use]
    pub fn new(model_family: String, profile: ModelProfile) -> Self {
        Self {
            model_family,
            supports_temperature: profile.supports_temperature,
            supports_thinking: profile.supports_thinking,
            supports_reasoning: profile.supports_reasoning,
            params_schema: serde_json::json!({ "type": "object" }),
            supports_web_search: profile.supports_web_search,
            vision: profile.vision,
            image_input: profile.vision,
            image_tool_results: profile.image_tool_results,
            inline_video: profile.inline_video,
            realtime: false,
            image_generation: false,
            beta_headers: Vec::new(),
        }
    }
}

impl CatalogueEntry {
    /// Returns the headers that switch on what the provider still calls a beta.
    #[must_use]
    pub fn beta_headers(&self) -> Vec<BetaHeader> {
        self.betas.iter().map(|beta| beta.header()).collect()
    }
}

impl Beta {
    const fn header(self) -> BetaHeader {
        let (feature, header_value) = match self {
            Self::Compaction => ("compaction", "compact-2026-01-12"),
            Self::StructuredOutput => ("structured_output", "structured-outputs-2025-11-13"),
            Self::InterleavedThinking => ("interleaved_thinking", "interleaved-thinking-2025-05-14"),
        };
        BetaHeader { feature, header_name: "anthropic-beta", header_value }
    }
}
