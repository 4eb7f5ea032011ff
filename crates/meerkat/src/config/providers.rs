//! The part of the config that is about models and who serves them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use meerkat_core::ModelProfile;
use meerkat_providers::{ModelTier, base_url_fault};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

/// The default model of each provider.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ModelsConfig {
    /// Of Anthropic; the catalog's default if not set.
    pub anthropic: Option<String>,
    /// Of OpenAI; the catalog's default if not set.
    pub openai: Option<String>,
    /// Of Gemini; the catalog's default if not set.
    pub gemini: Option<String>,
}

/// Where providers are reached.
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

/// Where one provider is reached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProviderConfig {
    /// Another address than the provider's own, for a proxy or a test server.
    #[serde(serialize_with = "shown_address")]
    pub base_url: Option<String>,
    /// Another version of the provider's API than the default.
    pub api_version: Option<String>,
}

/// The tools of providers that models may use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProviderToolsConfig {
    /// Of Anthropic.
    pub anthropic: WebSearchConfig,
    /// Of OpenAI.
    pub openai: WebSearchConfig,
    /// Of Gemini.
    pub gemini: GoogleSearchConfig,
}

/// Web search by the provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WebSearchConfig {
    /// Whether models that can may search the web.
    pub web_search: bool,
}

/// Web search by Google.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GoogleSearchConfig {
    /// Whether models that can may search the web.
    pub google_search: bool,
}

/// Servers of the user's own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SelfHostedConfig {
    /// The servers by name.
    pub servers: BTreeMap<String, SelfHostedServer>,
    /// The models by the name they are asked for.
    pub models: BTreeMap<String, SelfHostedModel>,
}

/// A server that speaks like OpenAI.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SelfHostedServer {
    /// How it is spoken to; there is only `openai_compatible`.
    #[serde(default)]
    pub transport: SelfHostedTransport,
    /// Its address, with or without `/v1`.
    #[serde(serialize_with = "shown_text")]
    pub base_url: String,
    /// Which of the two formats it speaks.
    #[serde(default)]
    pub api_style: ApiStyle,
    /// The environment variable that holds its token; not one that holds a provider's key or is Meerkat's own.
    #[serde(default)]
    pub bearer_token_env: Option<String>,
    /// Its token. It is shown as `***`, which stands for the token when it is given back.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "masked")]
    pub bearer_token: Option<String>,
}

/// Stands for a secret.
pub(super) const MASK: &str = "***";

#[expect(clippy::ref_option, reason = "serde calls it so")]
pub(super) fn masked<S: Serializer>(_: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(MASK)
}

#[expect(clippy::ref_option, reason = "serde calls it so")]
fn shown_address<S: Serializer>(url: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    url.as_deref().map(without_login).serialize(serializer)
}

fn shown_text<S: Serializer>(url: &str, serializer: S) -> Result<S::Ok, S::Error> {
    without_login(url).serialize(serializer)
}

/// Masks a name and a password in an address, if there are any.
fn without_login(url: &str) -> Cow<'_, str> {
    if base_url_fault(url).is_none() {
        return Cow::Borrowed(url);
    }
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => Cow::Owned(format!("{scheme}://{MASK}{}", &rest[at..])),
        None => Cow::Borrowed(url),
    }
}

/// How a self-hosted server is spoken to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SelfHostedTransport {
    /// Like OpenAI.
    #[default]
    #[serde(rename = "openai_compatible", alias = "open_ai_compatible")]
    OpenAiCompatible,
}

/// Which format a server speaks.
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
    /// The server it is on.
    pub server: String,
    /// What the server calls it.
    pub remote_model: String,
    /// Its name for people; what it is asked for by, if not set.
    #[serde(default)]
    pub display_name: Option<String>,
    /// Its family.
    #[serde(default)]
    pub family: Option<String>,
    /// `recommended` or `supported`.
    #[serde(default)]
    pub tier: ModelTier,
    /// How many tokens it can read at once.
    #[serde(default)]
    pub context_window: Option<u64>,
    /// How many tokens it can write at once.
    #[serde(default)]
    pub max_output_tokens: Option<u32>,
    /// It reads images.
    #[serde(default)]
    pub vision: bool,
    /// It reads images in tool results.
    #[serde(default)]
    pub image_tool_results: bool,
    /// It reads video.
    #[serde(default)]
    pub inline_video: bool,
    /// It takes a temperature.
    #[serde(default = "yes")]
    pub supports_temperature: bool,
    /// It can be told to think.
    #[serde(default)]
    pub supports_thinking: bool,
    /// It reasons, with a settable effort.
    #[serde(default)]
    pub supports_reasoning: bool,
    /// Its server can search the web for it.
    #[serde(default)]
    pub supports_web_search: bool,
    /// How long one call may take.
    #[serde(default)]
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
    pub(super) fn orphan(&self) -> Option<(&str, &str)> {
        let (name, model) =
            self.models.iter().find(|(_, model)| !self.servers.contains_key(&model.server))?;
        Some((name, &model.server))
    }
}
