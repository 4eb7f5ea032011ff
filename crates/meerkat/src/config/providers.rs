//! The sections about models and their providers.

use std::borrow::Cow;
use std::collections::BTreeMap;

use meerkat_core::ModelProfile;
use meerkat_providers::{ModelTier, base_url_error};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

/// The default model of each provider.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ModelsConfig {
    /// Default model of Anthropic; the catalog's default if not set.
    pub anthropic: Option<String>,
    /// Default model of OpenAI; the catalog's default if not set.
    pub openai: Option<String>,
    /// Default model of Gemini; the catalog's default if not set.
    pub gemini: Option<String>,
}

/// Connections to providers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProvidersConfig {
    /// Anthropic.
    pub anthropic: ProviderConfig,
    /// OpenAI.
    pub openai: ProviderConfig,
    /// Gemini.
    pub gemini: ProviderConfig,
}

impl ProvidersConfig {
    /// Returns the base URLs that are set, with the names of their providers.
    pub(super) fn base_urls(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let providers = [("anthropic", &self.anthropic), ("openai", &self.openai), ("gemini", &self.gemini)];
        providers.into_iter().filter_map(|(name, provider)| Some((name, provider.base_url.as_ref()?)))
    }
}

/// Connection to a provider.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProviderConfig {
    /// Base URL to use instead of the provider's own, such as a proxy or a test server.
    #[serde(serialize_with = "serialize_optional_url")]
    pub base_url: Option<String>,
    /// API version to use instead of the default.
    pub api_version: Option<String>,
}

/// Provider-run tools that models may use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProviderToolsConfig {
    /// Tools of Anthropic.
    pub anthropic: WebSearchConfig,
    /// Tools of OpenAI.
    pub openai: WebSearchConfig,
    /// Tools of Gemini.
    pub gemini: GoogleSearchConfig,
}

/// Web search by the provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WebSearchConfig {
    /// Whether models that support it may search the web.
    pub web_search: bool,
}

/// Web search by Google.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GoogleSearchConfig {
    /// Whether models that support it may search the web.
    pub google_search: bool,
}

/// Self-hosted servers and their models.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SelfHostedConfig {
    /// Servers by name.
    pub servers: BTreeMap<String, SelfHostedServer>,
    /// Models by the name used to select them.
    pub models: BTreeMap<String, SelfHostedModel>,
}

/// An OpenAI-compatible server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SelfHostedServer {
    /// Protocol of the server; only `openai_compatible` is supported.
    #[serde(default)]
    pub transport: SelfHostedTransport,
    /// Base URL, with or without `/v1`.
    #[serde(serialize_with = "serialize_url")]
    pub base_url: String,
    /// API format of the server.
    #[serde(default)]
    pub api_style: ApiStyle,
    /// Environment variable with the server's token. It must not be a variable for a provider's key or for Meerkat
    /// itself.
    #[serde(default)]
    pub bearer_token_env: Option<String>,
    /// The server's token. It is displayed as `***`; writing `***` back keeps the stored token.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "masked")]
    pub bearer_token: Option<String>,
}

/// Maximum of `call_timeout_secs`.
pub(super) const MAX_CALL_TIMEOUT_SECS: u64 = 30 * 24 * 3600;

/// Placeholder for a secret.
pub(super) const MASK: &str = "***";

#[expect(clippy::ref_option, reason = "signature required by serde")]
pub(super) fn masked<S: Serializer>(_: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(MASK)
}

#[expect(clippy::ref_option, reason = "signature required by serde")]
fn serialize_optional_url<S: Serializer>(url: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    url.as_deref().map(mask_credentials).serialize(serializer)
}

fn serialize_url<S: Serializer>(url: &str, serializer: S) -> Result<S::Ok, S::Error> {
    mask_credentials(url).serialize(serializer)
}

/// Masks the user name and the password in a URL, if there are any.
fn mask_credentials(url: &str) -> Cow<'_, str> {
    if base_url_error(url).is_none() {
        return Cow::Borrowed(url);
    }
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => Cow::Owned(format!("{scheme}://{MASK}{}", &rest[at..])),
        None => Cow::Borrowed(url),
    }
}

/// Protocol of a self-hosted server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SelfHostedTransport {
    /// OpenAI-compatible.
    #[default]
    #[serde(rename = "openai_compatible", alias = "open_ai_compatible")]
    OpenAiCompatible,
}

/// API format of a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApiStyle {
    /// Chat Completions.
    #[default]
    ChatCompletions,
    /// Responses.
    Responses,
}

/// A model on a self-hosted server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of the public document")]
pub struct SelfHostedModel {
    /// Name of the model's server.
    pub server: String,
    /// Model name on the server.
    pub remote_model: String,
    /// Display name; the key in `models` if not set.
    #[serde(default)]
    pub display_name: Option<String>,
    /// Model family.
    #[serde(default)]
    pub family: Option<String>,
    /// `recommended` or `supported`.
    #[serde(default)]
    pub tier: ModelTier,
    /// Context window, in tokens.
    #[serde(default)]
    pub context_window: Option<u64>,
    /// Maximum output, in tokens.
    #[serde(default)]
    pub max_output_tokens: Option<u32>,
    /// Whether the model accepts images.
    #[serde(default)]
    pub vision: bool,
    /// Whether the model accepts images in tool results.
    #[serde(default)]
    pub image_tool_results: bool,
    /// Whether the model accepts video.
    #[serde(default)]
    pub inline_video: bool,
    /// Whether the model accepts a temperature.
    #[serde(default = "yes")]
    pub supports_temperature: bool,
    /// Whether thinking can be enabled.
    #[serde(default)]
    pub supports_thinking: bool,
    /// Whether the model reasons with a configurable effort.
    #[serde(default)]
    pub supports_reasoning: bool,
    /// Whether the server can search the web.
    #[serde(default)]
    pub supports_web_search: bool,
    /// Time after which a call that receives nothing has failed, in seconds, at most 30 days.
    #[serde(default)]
    #[schemars(range(min = 1, max = MAX_CALL_TIMEOUT_SECS))]
    pub call_timeout_secs: Option<u64>,
}

const fn yes() -> bool {
    true
}

impl Default for WebSearchConfig {
    fn default() -> Self {
        Self { web_search: true }
    }
}

impl Default for GoogleSearchConfig {
    fn default() -> Self {
        Self { google_search: true }
    }
}

impl From<&SelfHostedModel> for ModelProfile {
    fn from(model: &SelfHostedModel) -> Self {
        Self {
            supports_temperature: model.supports_temperature,
            supports_thinking: model.supports_thinking,
            supports_reasoning: model.supports_reasoning,
            supports_web_search: model.supports_web_search,
            vision: model.vision,
            image_tool_results: model.image_tool_results,
            inline_video: model.inline_video,
        }
    }
}

impl SelfHostedConfig {
    /// Returns the first model whose server does not exist.
    pub(super) fn model_without_server(&self) -> Option<(&str, &str)> {
        let (name, model) =
            self.models.iter().find(|(_, model)| !self.servers.contains_key(&model.server))?;
        Some((name, &model.server))
    }

    /// Returns the first model whose timeout is out of bounds.
    pub(super) fn model_with_invalid_timeout(&self) -> Option<&str> {
        let is_invalid = |secs: u64| !(1..=MAX_CALL_TIMEOUT_SECS).contains(&secs);
        let (name, _) =
            self.models.iter().find(|(_, model)| model.call_timeout_secs.is_some_and(is_invalid))?;
        Some(name)
    }
}
