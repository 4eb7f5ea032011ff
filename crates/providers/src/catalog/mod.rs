//! The catalog of known models: the capabilities, token limits, and parameters of each.
//!
//! The data is in `models.json`; this module parses and queries it. It does not cover self-hosted servers, whose
//! models come from the config. A model that is not in the catalog can still be used: it is assumed to resemble its
//! provider's default.

mod images;
mod params;
mod prices;
#[cfg(test)]
mod tests;
mod view;

use std::sync::LazyLock;
use std::time::Duration;

use meerkat_core::{ModelInfo, ModelProfile, Provider};
use serde::Deserialize;

pub use images::image_models;
pub use params::params_schema;
pub use prices::PriceTable;
pub use view::{BetaHeader, ModelEntry, ModelTier, ProfileEntry, ProviderGroup};

static BUILT_IN: LazyLock<Catalog> = LazyLock::new(|| {
    // A test checks that the file can be parsed; an empty catalog is still valid.
    read(include_str!("models.json")).unwrap_or_default()
});

fn read(json: &str) -> Result<Catalog, serde_json::Error> {
    let mut catalog: Catalog = serde_json::from_str(json)?;
    for group in &mut catalog.providers {
        for entry in &mut group.models {
            entry.provider = group.provider;
        }
    }
    Ok(catalog)
}

/// The catalog of known models.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalog {
    providers: Vec<Group>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    provider: Provider,
    default_model: String,
    models: Vec<CatalogEntry>,
}

/// One model of the catalog.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogEntry {
    /// Model id.
    pub id: String,
    /// Display name.
    pub display_name: String,
    /// Id of the model that this one is an alias of.
    pub alias_of: Option<String>,
    /// Recommendation level.
    pub tier: ModelTier,
    /// Model family.
    pub model_family: String,
    /// Context window in tokens.
    pub context_window: u64,
    /// Maximum number of output tokens.
    pub max_output_tokens: u32,
    /// Time after which a call that receives nothing has failed, in seconds.
    pub call_timeout_secs: u64,
    /// Supported values of its effort, called the thinking level by some providers; empty if it cannot be set.
    #[serde(default)]
    pub efforts: Vec<String>,
    /// Supported thinking modes of an Anthropic model; empty if there is no choice.
    #[serde(default)]
    pub thinking: Vec<ThinkingMode>,
    flags: Vec<Flag>,
    params: Vec<params::Param>,
    #[serde(default)]
    betas: Vec<Beta>,
    #[serde(skip, default = "unknown_provider")]
    provider: Provider,
}

/// A thinking mode of an Anthropic model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThinkingMode {
    /// The model decides how much to think.
    Adaptive,
    /// Thinking up to a number of tokens.
    Enabled,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Flag {
    Temperature,
    Thinking,
    Reasoning,
    WebSearch,
    Vision,
    ImageToolResults,
    InlineVideo,
    Realtime,
    ImageGeneration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Beta {
    Compaction,
    StructuredOutput,
    InterleavedThinking,
}

const fn unknown_provider() -> Provider {
    Provider::Other
}

impl Catalog {
    /// Returns the built-in catalog.
    #[must_use]
    pub fn built_in() -> &'static Self {
        &BUILT_IN
    }

    /// Finds a model by its id.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<&CatalogEntry> {
        self.providers.iter().flat_map(|group| &group.models).find(|entry| entry.id == id)
    }

    /// Returns the vendor of a model, known or not, based on the prefix of its name.
    #[must_use]
    pub fn provider_of_prefix(id: &str) -> Option<Provider> {
        let series =
            |name: &str| id.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
        if id.starts_with("claude-") {
            Some(Provider::Anthropic)
        } else if id.starts_with("gemini-") {
            Some(Provider::Gemini)
        } else if ["gpt-", "chatgpt-", "codex-"].iter().any(|prefix| id.starts_with(prefix))
            || ["o1", "o3", "o4"].into_iter().any(series)
        {
            Some(Provider::OpenAi)
        } else {
            None
        }
    }

    /// Returns the model to use when only the provider is known.
    #[must_use]
    pub fn default_model(&self, provider: Provider) -> Option<&CatalogEntry> {
        let group = self.providers.iter().find(|group| group.provider == provider)?;
        group.models.iter().find(|entry| entry.id == group.default_model)
    }

    /// Returns the public view: providers in a fixed order, the models of each sorted by id.
    #[must_use]
    pub fn groups(&self) -> Vec<ProviderGroup> {
        self.providers.iter().map(Group::view).collect()
    }

    /// Describes a model of which only the name and the provider are known. It gets the capabilities of the
    /// provider's default model, without token limits.
    #[must_use]
    pub fn guess(&self, id: &str, provider: Provider) -> ModelInfo {
        let mut info = ModelInfo::new(id, provider);
        match (self.default_model(provider), provider) {
            (Some(default), _) => {
                let template = default.info();
                info.call_timeout = template.call_timeout;
                info.profile = template.profile;
            }
            (None, Provider::SelfHosted) => info.profile.supports_temperature = true,
            (None, _) => {}
        }
        info
    }

    /// Describes a model, known or not.
    #[must_use]
    pub fn info(&self, id: &str, provider: Provider) -> ModelInfo {
        match self.find(id) {
            Some(entry) if entry.provider == provider => entry.info(),
            _ => self.guess(id, provider),
        }
    }
}

impl CatalogEntry {
    /// Returns its provider.
    #[must_use]
    pub const fn provider(&self) -> Provider {
        self.provider
    }

    /// Returns `true` if a run can use it; a realtime-only model cannot serve runs.
    #[must_use]
    pub fn serves_runs(&self) -> bool {
        !self.has(Flag::Realtime)
    }

    /// Returns the model's properties for a run.
    #[must_use]
    pub fn info(&self) -> ModelInfo {
        ModelInfo {
            id: self.id.clone(),
            provider: self.provider,
            context_window: Some(self.context_window),
            max_output_tokens: Some(self.max_output_tokens),
            call_timeout: Some(Duration::from_secs(self.call_timeout_secs)),
            profile: ModelProfile {
                supports_temperature: self.has(Flag::Temperature),
                supports_thinking: self.has(Flag::Thinking),
                supports_reasoning: self.has(Flag::Reasoning),
                supports_web_search: self.has(Flag::WebSearch),
                vision: self.has(Flag::Vision),
                image_tool_results: self.has(Flag::ImageToolResults),
                inline_video: self.has(Flag::InlineVideo),
            },
        }
    }

    /// Returns its public view.
    #[must_use]
    pub fn view(&self) -> ModelEntry {
        ModelEntry::from_entry(self)
    }

    fn has(&self, flag: Flag) -> bool {
        self.flags.contains(&flag)
    }
}
