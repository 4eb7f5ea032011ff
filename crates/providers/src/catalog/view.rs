//! Public view of the catalog.

use meerkat_core::{ModelProfile, Provider};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Beta, CatalogEntry, Flag, Group, params_schema};

/// The models of one provider.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ProviderGroup {
    /// The provider.
    pub provider: Provider,
    /// Default model of the provider.
    pub default_model_id: String,
    /// Its models, sorted by id.
    pub models: Vec<ModelEntry>,
}

/// One model.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ModelEntry {
    /// Model id.
    pub id: String,
    /// Display name.
    pub display_name: String,
    /// Recommendation level.
    pub tier: ModelTier,
    /// Context window in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// Maximum number of output tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u32>,
    /// Id of the self-hosted server that serves it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_id: Option<String>,
    /// Capabilities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<ProfileEntry>,
}

/// Recommendation level of a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModelTier {
    /// Recommended.
    Recommended,
    /// Supported, but not specifically recommended.
    #[default]
    Supported,
}

/// Capabilities of a model.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the public catalog")]
pub struct ProfileEntry {
    /// Model family.
    pub model_family: String,
    /// Whether it accepts a temperature.
    pub supports_temperature: bool,
    /// Whether it can think before it answers.
    pub supports_thinking: bool,
    /// Whether it reasons, with a configurable effort.
    pub supports_reasoning: bool,
    /// JSON Schema of the `provider_params` it accepts.
    pub params_schema: Value,
    /// Whether its provider can search the web for it.
    pub supports_web_search: bool,
    /// Whether it accepts images in user messages.
    pub vision: bool,
    /// Same as `vision`.
    pub image_input: bool,
    /// Whether it accepts images in tool results.
    pub image_tool_results: bool,
    /// Whether it accepts video in user messages.
    pub inline_video: bool,
    /// Whether it is a realtime-only model.
    pub realtime: bool,
    /// Whether its provider can generate images for it.
    pub image_generation: bool,
    /// Headers that enable the provider's beta features.
    pub beta_headers: Vec<BetaHeader>,
}

/// A header that enables a feature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BetaHeader {
    /// Feature it enables.
    pub feature: &'static str,
    /// Name of the header.
    pub header_name: &'static str,
    /// Value of the header.
    pub header_value: &'static str,
}

impl Group {
    pub(super) fn view(&self) -> ProviderGroup {
        let mut models: Vec<_> = self.models.iter().map(ModelEntry::from_entry).collect();
        models.sort_by(|a, b| a.id.cmp(&b.id));
        ProviderGroup { provider: self.provider, default_model_id: self.default_model.clone(), models }
    }
}

impl ModelEntry {
    pub(super) fn from_entry(entry: &CatalogEntry) -> Self {
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
    /// Describes a model that accepts any parameters and needs no headers.
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

impl CatalogEntry {
    /// Returns the headers that enable the provider's beta features.
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
