//! Resolution of a model name to a callable model, using the catalog, the config, and the API keys.
//!
//! The embedder supplies keys by the names of their environment variables. Nothing here reads the environment, and a
//! key is only sent in its own provider's header.

use std::sync::Arc;
use std::time::Duration;

use meerkat_core::{ImageModel, Model, ModelInfo, ModelProfile, Provider, Redactor, excerpt};
use meerkat_fetch::Http;
use meerkat_providers::{Catalog, Endpoint, Secret, image_models};

use crate::config::{Config, ProviderConfig, SelfHostedModel};
use crate::secrets::{SecretSource, is_reserved_variable, key_variables};

use super::error::ModelsError;
use super::factory;

/// Access to the providers.
pub(crate) struct Providers {
    secrets: SecretSource,
    /// The redactor that masks the keys and tokens in use.
    redactor: Redactor,
    http: Http,
}

/// A model, and a warning about how it was resolved, if any.
pub(crate) struct ResolvedModel {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) warning: Option<String>,
}

/// Returns the base URL of a hosted provider.
const fn base_url(provider: Provider) -> Option<&'static str> {
    Some(match provider {
        Provider::Anthropic => "https://api.anthropic.com",
        Provider::OpenAi => "https://api.openai.com",
        Provider::Gemini => "https://generativelanguage.googleapis.com",
        Provider::SelfHosted | Provider::Other => return None,
    })
}

impl Providers {
    pub(crate) fn new(secrets: SecretSource, redactor: Redactor, http: Http) -> Self {
        Self { secrets, redactor, http }
    }

    /// Returns the default model of the first provider that has a key.
    pub(crate) fn first_with_key(&self, config: &Config) -> Option<String> {
        let hosted = [Provider::Anthropic, Provider::OpenAi, Provider::Gemini];
        let provider = hosted.into_iter().find(|provider| self.key(*provider).is_some())?;
        Some(default_model(provider, config))
    }

    /// Finds a model by its name: a self-hosted one, one of the catalog, or one whose name prefix implies its provider.
    pub(crate) fn find(
        &self,
        id: &str,
        provider: Option<Provider>,
        config: &Config,
    ) -> Result<ResolvedModel, ModelsError> {
        if let Some(model) = config.self_hosted.models.get(id) {
            let model = self.self_hosted(id, model, config)?;
            return Ok(ResolvedModel { model, warning: None });
        }
        let catalog = Catalog::built_in();
        let (info, warning) = match catalog.find(id) {
            Some(entry) => (entry.info(), None),
            None => {
                let served_by =
                    provider.filter(|p| base_url(*p).is_some()).or_else(|| Catalog::provider_of_prefix(id));
                let served_by = served_by.ok_or_else(|| unknown_model(id, config))?;
                let text =
                    format!("model `{}` is not in the catalog; assuming {served_by} serves it", excerpt(id));
                (catalog.guess(id, served_by), Some(text))
            }
        };
        if let Some(provider) = provider.filter(|provider| *provider != info.provider) {
            let reason = format!("it is served by `{}`, not by `{provider}`", info.provider);
            return Err(ModelsError::Unusable { model: id.to_owned(), reason });
        }
        let model = self.hosted(&info, config)?;
        Ok(ResolvedModel { model, warning })
    }

    fn hosted(&self, info: &ModelInfo, config: &Config) -> Result<Arc<dyn Model>, ModelsError> {
        let unusable = |reason: String| ModelsError::Unusable { model: info.id.clone(), reason };
        let base =
            base_url(info.provider).ok_or_else(|| unusable("no provider serves this model".to_owned()))?;
        if Catalog::built_in().find(&info.id).is_some_and(|entry| !entry.serves_runs()) {
            return Err(unusable("it is a realtime-only model, which cannot serve runs".to_owned()));
        }
        let endpoint = self.endpoint(info.provider, base, config).map_err(|variables| {
            unusable(format!("no API key; set {variables}, or use the model `offline`"))
        })?;
        let version = provider_config(info.provider, config).api_version;
        factory::hosted_model(info, &endpoint, &self.http, version.as_deref())
    }

    /// Returns the first provider that supports image generation and has a key.
    pub(crate) fn image_provider(&self) -> Option<Provider> {
        let can = |provider: &Provider| factory::supports_images(*provider) && self.key(*provider).is_some();
        [Provider::OpenAi, Provider::Gemini].into_iter().find(can)
    }

    /// Finds an image model of the given provider, else of the one implied by its name, else of the first one with a
    /// key.
    pub(crate) fn image_model(
        &self,
        provider: Option<Provider>,
        id: Option<&str>,
        config: &Config,
    ) -> Result<Arc<dyn ImageModel>, ModelsError> {
        let unusable =
            |model: &str, reason: String| ModelsError::Unusable { model: model.to_owned(), reason };
        let provider = match provider.or_else(|| id.and_then(implied_image_provider)) {
            Some(provider) => provider,
            None => self.image_provider().ok_or_else(|| {
                let reason = "no API key for a provider that generates images; set `OPENAI_API_KEY` or \
                    `GEMINI_API_KEY`";
                unusable(id.unwrap_or("gpt-image-2"), reason.to_owned())
            })?,
        };
        let default = || image_models(provider).first().copied();
        let id = id.or_else(default).unwrap_or("image");
        if Catalog::built_in().find(id).is_some() || config.self_hosted.models.contains_key(id) {
            let reason =
                format!("it does not generate images; `{}` does", default().unwrap_or("gpt-image-2"));
            return Err(unusable(id, reason));
        }
        let base =
            base_url(provider).ok_or_else(|| unusable(id, "no provider serves this model".to_owned()))?;
        let endpoint = self
            .endpoint(provider, base, config)
            .map_err(|variables| unusable(id, format!("no API key; set {variables}")))?;
        let version = provider_config(provider, config).api_version;
        factory::image_model(provider, id, endpoint, &self.http, version)
    }

    /// Returns a provider's endpoint, or the variables that may hold its key if the key is missing.
    fn endpoint(&self, provider: Provider, base: &str, config: &Config) -> Result<Endpoint, String> {
        let key = self.key(provider).ok_or_else(|| {
            let names = key_variables(provider).iter().filter(|key| !key.starts_with("RKAT_"));
            names.map(|key| format!("`{key}`")).collect::<Vec<_>>().join(" or ")
        })?;
        let configured = provider_config(provider, config).base_url;
        let base_url = configured.as_deref().unwrap_or(base).trim_end_matches('/').to_owned();
        Ok(Endpoint { base_url, key: Secret::new(key) })
    }

    fn self_hosted(
        &self,
        id: &str,
        model: &SelfHostedModel,
        config: &Config,
    ) -> Result<Arc<dyn Model>, ModelsError> {
        let server = config.self_hosted.servers.get(&model.server).ok_or_else(|| ModelsError::Unusable {
            model: id.to_owned(),
            reason: format!("its server `{}` is not in the config", model.server),
        })?;
        let token = match (&server.bearer_token, &server.bearer_token_env) {
            (Some(token), _) => token.clone(),
            (None, Some(name)) if is_reserved_variable(name) => {
                let reason = format!(
                    "the variable `{name}` may hold a secret that is not for its server; use another one"
                );
                return Err(ModelsError::Unusable { model: id.to_owned(), reason });
            }
            (None, Some(name)) => (self.secrets)(name).ok_or_else(|| ModelsError::Unusable {
                model: id.to_owned(),
                reason: format!("the variable `{name}` with the token of its server is not set"),
            })?,
            (None, None) => String::new(),
        };
        self.redactor.add(&token);
        self.redactor.add_url(&server.base_url);
        let base_url = server.base_url.trim_end_matches('/').to_owned();
        let endpoint = Endpoint { base_url, key: Secret::new(token) };
        let info = ModelInfo {
            context_window: model.context_window,
            max_output_tokens: model.max_output_tokens,
            call_timeout: model.call_timeout_secs.map(Duration::from_secs),
            profile: ModelProfile::from(model),
            ..ModelInfo::new(id, Provider::SelfHosted)
        };
        factory::self_hosted_model(info, &model.remote_model, endpoint, &self.http, server.api_style)
    }

    fn key(&self, provider: Provider) -> Option<String> {
        let keys = key_variables(provider).iter().map(|name| (self.secrets)(name));
        let key = keys.flatten().find(|key| !key.trim().is_empty());
        key.inspect(|key| self.redactor.add(key))
    }
}

/// Returns a provider's default model.
pub(crate) fn default_model(provider: Provider, config: &Config) -> String {
    let configured = match provider {
        Provider::Anthropic => &config.models.anthropic,
        Provider::OpenAi => &config.models.openai,
        Provider::Gemini => &config.models.gemini,
        Provider::SelfHosted => return config.self_hosted.models.keys().next().cloned().unwrap_or_default(),
        Provider::Other => return meerkat_providers::OFFLINE_MODEL_ID.to_owned(),
    };
    let default = || Catalog::built_in().default_model(provider).map(|entry| entry.info().id);
    configured.clone().or_else(default).unwrap_or_default()
}

/// Returns the provider implied by the name of an image model.
fn implied_image_provider(id: &str) -> Option<Provider> {
    let all = [("gpt-image", Provider::OpenAi), ("dall-e", Provider::OpenAi), ("gemini-", Provider::Gemini)];
    all.into_iter().find(|(prefix, _)| id.starts_with(prefix)).map(|(_, provider)| provider)
}

fn provider_config(provider: Provider, config: &Config) -> ProviderConfig {
    match provider {
        Provider::Anthropic => config.providers.anthropic.clone(),
        Provider::OpenAi => config.providers.openai.clone(),
        Provider::Gemini => config.providers.gemini.clone(),
        Provider::SelfHosted | Provider::Other => ProviderConfig::default(),
    }
}

fn unknown_model(id: &str, config: &Config) -> ModelsError {
    let names: Vec<_> = config.self_hosted.models.keys().map(|name| format!("`{name}`")).collect();
    let self_hosted =
        if names.is_empty() { String::new() } else { format!(", or use one of {}", names.join(", ")) };
    let reason = format!("unknown model; see meerkat_models_catalog{self_hosted}");
    ModelsError::Unusable { model: id.to_owned(), reason }
}
