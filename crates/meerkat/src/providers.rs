//! Resolution of a model name to a callable model, using the catalog, the config, and the API keys.
//!
//! The embedder supplies keys by the names of their environment variables. Nothing here reads the environment, and a
//! key is only sent in its own provider's header.

use std::sync::Arc;
use std::time::Duration;

use meerkat_core::{ImageModel, Model, ModelInfo, ModelProfile, Provider, Redactor};
use meerkat_fetch::Http;
use meerkat_providers::{Catalog, Endpoint, Secret, image_models};

use crate::config::{Config, ProviderConfig, SelfHostedModel};
use crate::{Error, features};

/// Function that looks up a secret by the name of its environment variable.
pub type SecretSource = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

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

/// Base URL of a hosted provider, and the variables that may hold its key; the first one set is used.
struct Hosted {
    base_url: &'static str,
    keys: &'static [&'static str],
}

const fn hosted(provider: Provider) -> Option<Hosted> {
    Some(match provider {
        Provider::Anthropic => Hosted {
            base_url: "https://api.anthropic.com",
            keys: &["RKAT_ANTHROPIC_API_KEY", "ANTHROPIC_API_KEY"],
        },
        Provider::OpenAi => {
            Hosted { base_url: "https://api.openai.com", keys: &["RKAT_OPENAI_API_KEY", "OPENAI_API_KEY"] }
        }
        Provider::Gemini => Hosted {
            base_url: "https://generativelanguage.googleapis.com",
            keys: &["RKAT_GEMINI_API_KEY", "GEMINI_API_KEY", "RKAT_GOOGLE_API_KEY", "GOOGLE_API_KEY"],
        },
        Provider::SelfHosted | Provider::Other => return None,
    })
}

/// Returns every variable that may hold an API key, with its provider.
#[must_use]
pub fn api_key_variables() -> Vec<(&'static str, Provider)> {
    let with_provider = |provider| {
        hosted(provider).into_iter().flat_map(move |h| h.keys.iter().map(move |key| (*key, provider)))
    };
    Provider::ALL.into_iter().flat_map(with_provider).collect()
}

/// Returns `true` if a variable may hold a secret that must not be sent to self-hosted servers: a hosted provider's
/// key, or a secret of Meerkat itself.
pub(crate) fn is_reserved_variable(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    name.starts_with("RKAT_") || api_key_variables().iter().any(|(known, _)| *known == name)
}

impl Providers {
    pub(crate) fn new(secrets: SecretSource, redactor: Redactor) -> Self {
        Self { secrets, redactor, http: Http::default() }
    }

    pub(crate) fn http(&self) -> &Http {
        &self.http
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
    ) -> Result<ResolvedModel, Error> {
        if let Some(model) = config.self_hosted.models.get(id) {
            let model = self.self_hosted(id, model, config)?;
            return Ok(ResolvedModel { model, warning: None });
        }
        let catalog = Catalog::built_in();
        let (info, warning) = match catalog.find(id) {
            Some(entry) => (entry.info(), None),
            None => {
                let served_by =
                    provider.filter(|p| hosted(*p).is_some()).or_else(|| Catalog::provider_of_prefix(id));
                let served_by = served_by.ok_or_else(|| unknown_model(id, config))?;
                let text = format!("model `{id}` is not in the catalog; assuming {served_by} serves it");
                (catalog.guess(id, served_by), Some(text))
            }
        };
        if let Some(provider) = provider.filter(|provider| *provider != info.provider) {
            let reason = format!("it is served by `{}`, not by `{provider}`", info.provider);
            return Err(Error::Model { model: id.to_owned(), reason });
        }
        let model = self.hosted(&info, config)?;
        Ok(ResolvedModel { model, warning })
    }

    fn hosted(&self, info: &ModelInfo, config: &Config) -> Result<Arc<dyn Model>, Error> {
        let unusable = |reason: String| Error::Model { model: info.id.clone(), reason };
        let at = hosted(info.provider).ok_or_else(|| unusable("no provider serves this model".to_owned()))?;
        if Catalog::built_in().find(&info.id).is_some_and(|entry| !entry.serves_runs()) {
            return Err(unusable("it is a realtime-only model, which cannot serve runs".to_owned()));
        }
        let endpoint = self.endpoint(info.provider, &at, config).map_err(|variables| {
            unusable(format!("no API key; set {variables}, or use the model `offline`"))
        })?;
        let version = provider_config(info.provider, config).api_version;
        features::hosted_model(info, &endpoint, &self.http, version.as_deref())
    }

    /// Returns the first provider that supports image generation and has a key.
    pub(crate) fn image_provider(&self) -> Option<Provider> {
        let can = |provider: &Provider| features::supports_images(*provider) && self.key(*provider).is_some();
        [Provider::OpenAi, Provider::Gemini].into_iter().find(can)
    }

    /// Finds an image model of the given provider, else of the one implied by its name, else of the first one with a
    /// key.
    pub(crate) fn image_model(
        &self,
        provider: Option<Provider>,
        id: Option<&str>,
        config: &Config,
    ) -> Result<Arc<dyn ImageModel>, Error> {
        let unusable = |model: &str, reason: String| Error::Model { model: model.to_owned(), reason };
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
        let at = hosted(provider).ok_or_else(|| unusable(id, "no provider serves this model".to_owned()))?;
        let endpoint = self
            .endpoint(provider, &at, config)
            .map_err(|variables| unusable(id, format!("no API key; set {variables}")))?;
        let version = provider_config(provider, config).api_version;
        features::image_model(provider, id, endpoint, &self.http, version)
    }

    /// Returns a provider's endpoint, or the variables that may hold its key if the key is missing.
    fn endpoint(&self, provider: Provider, at: &Hosted, config: &Config) -> Result<Endpoint, String> {
        let key = self.key(provider).ok_or_else(|| {
            let names = at.keys.iter().filter(|key| !key.starts_with("RKAT_"));
            names.map(|key| format!("`{key}`")).collect::<Vec<_>>().join(" or ")
        })?;
        let configured = provider_config(provider, config).base_url;
        let base_url = configured.as_deref().unwrap_or(at.base_url).trim_end_matches('/').to_owned();
        Ok(Endpoint { base_url, key: Secret::new(key) })
    }

    fn self_hosted(
        &self,
        id: &str,
        model: &SelfHostedModel,
        config: &Config,
    ) -> Result<Arc<dyn Model>, Error> {
        let server = config.self_hosted.servers.get(&model.server).ok_or_else(|| Error::Model {
            model: id.to_owned(),
            reason: format!("its server `{}` is not in the config", model.server),
        })?;
        let token = match (&server.bearer_token, &server.bearer_token_env) {
            (Some(token), _) => token.clone(),
            (None, Some(name)) if is_reserved_variable(name) => {
                let reason = format!(
                    "the variable `{name}` may hold a secret that is not for its server; use another one"
                );
                return Err(Error::Model { model: id.to_owned(), reason });
            }
            (None, Some(name)) => (self.secrets)(name).ok_or_else(|| Error::Model {
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
        features::self_hosted_model(info, &model.remote_model, endpoint, &self.http, server.api_style)
    }

    fn key(&self, provider: Provider) -> Option<String> {
        let keys = hosted(provider)?.keys.iter();
        let key =
            keys.map(|name| (self.secrets)(name)).find_map(|key| key.filter(|key| !key.trim().is_empty()));
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

fn unknown_model(id: &str, config: &Config) -> Error {
    let names: Vec<_> = config.self_hosted.models.keys().map(|name| format!("`{name}`")).collect();
    let self_hosted =
        if names.is_empty() { String::new() } else { format!(", or use one of {}", names.join(", ")) };
    let reason = format!("unknown model; see meerkat_models_catalog{self_hosted}");
    Error::Model { model: id.to_owned(), reason }
}
