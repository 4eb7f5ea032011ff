//! The models that are known by name: what each can do, how much it can read and write, and what may be asked
//! of it.
//!
//! The facts are data, in `models.json`; this module reads them and answers questions. It knows nothing of a
//! user's own servers, whose models come from the config, and a model that is not here can still be used: it is
//! taken to be like its provider's default.

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

static BUILT_IN: LazyLock<Catalogue> = LazyLock::new(|| {
    // That the file can be read is what a test proves; a catalog without models is still a catalog.
    read(include_str!("models.json")).unwrap_or_default()
});

fn read(json: &str) -> Result<Catalogue, serde_json::Error> {
    let mut catalogue: Catalogue = serde_json::from_str(json)?;
    for group in &mut catalogue.providers {
        for entry in &mut group.models {
            entry.provider = group.provider;
        }
    }
    Ok(catalogue)
}

/// The models that are known by name.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalogue {
    providers: Vec<Group>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    provider: Provider,
    default_model: String,
    models: Vec<CatalogueEntry>,
}

/// One model of the catalog.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogueEntry {
    /// Its id.
    pub id: String,
    /// Its name for people.
    pub display_name: String,
    /// The id it is another name of.
    pub alias_of: Option<String>,
    /// How warmly it is offered.
    pub tier: ModelTier,
    /// The family it belongs to.
    pub model_family: String,
    /// How many tokens it can read at once.
    pub context_window: u64,
    /// How many tokens it can write at once.
    pub max_output_tokens: u32,
    /// How many seconds one call may take.
    pub call_timeout_secs: u64,
    /// The values its effort, or what its provider calls its thinking level, can have; empty where it cannot
    /// be set.
    #[serde(default)]
    pub efforts: Vec<String>,
    /// How it can be told to think, where there is a choice.
    #[serde(default)]
    pub thinking: Vec<ThinkingMode>,
    flags: Vec<Flag>,
    params: Vec<params::Param>,
    #[serde(default)]
    betas: Vec<Beta>,
    #[serde(skip, default = "unknown_provider")]
    provider: Provider,
}

/// How an Anthropic model can be told to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThinkingMode {
    /// As much as it sees fit.
    Adaptive,
    /// Up to a number of tokens.
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

impl Catalogue {
    /// Returns the catalog that comes with the program.
    #[must_use]
    pub fn built_in() -> &'static Self {
        &BUILT_IN
    }

    /// Finds a model by its id.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<&CatalogueEntry> {
        self.providers.iter().flat_map(|group| &group.models).find(|entry| entry.id == id)
    }

    /// Tells who makes a model of that name, known or not, by how the name begins.
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

    /// Returns the model that is taken where only the provider is known.
    #[must_use]
    pub fn default_model(&self, provider: Provider) -> Option<&CatalogueEntry> {
        let group = self.providers.iter().find(|group| group.provider == provider)?;
        group.models.iter().find(|entry| entry.id == group.default_model)
    }

    /// Returns what everybody may see: providers in a fixed order, the models of each by id.
    #[must_use]
    pub fn groups(&self) -> Vec<ProviderGroup> {
        self.providers.iter().map(Group::view).collect()
    }

    /// Describes a model of which only the name and the provider are known: what it can do is what the
    /// provider's default model can do, and how much it can read and write is not known.
    #[must_use]
    pub fn guess(&self, id: &str, provider: Provider) -> ModelInfo {
        let mut info = ModelInfo::new(id, provider);
        match (self.default_model(provider), provider) {
            (Some(default), _) => {
                let like = default.info();
                info.call_timeout = like.call_timeout;
                info.profile = like.profile;
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

impl CatalogueEntry {
    /// Returns who serves it.
    #[must_use]
    pub const fn provider(&self) -> Provider {
        self.provider
    }

    /// Tells whether a run can use it; a model for live channels only cannot be asked.
    #[must_use]
    pub fn serves_runs(&self) -> bool {
        !self.has(Flag::Realtime)
    }

    /// Describes it to a run.
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

    /// Describes it to everybody.
    #[must_use]
    pub fn view(&self) -> ModelEntry {
        ModelEntry::of(self)
    }

    fn has(&self, flag: Flag) -> bool {
        self.flags.contains(&flag)
    }
}
