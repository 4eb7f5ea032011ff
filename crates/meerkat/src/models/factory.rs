//! Creation of models for the providers of this build.

use std::sync::Arc;

use meerkat_core::{ImageModel, Model, ModelInfo, Provider};
use meerkat_fetch::Http;
use meerkat_providers::Endpoint;

use super::error::ModelsError;
use crate::config::ApiStyle;
use crate::request_error::RequestError;

/// Returns warnings for the parts of an output schema that a provider does not support.
#[cfg(any(feature = "anthropic", feature = "openai", feature = "gemini"))]
pub(crate) use meerkat_providers::schema_warnings;

/// Replacement for builds without providers: no warnings.
#[cfg(not(any(feature = "anthropic", feature = "openai", feature = "gemini")))]
pub(crate) fn schema_warnings(_: Provider, _: &serde_json::Value) -> Vec<meerkat_core::SchemaWarning> {
    Vec::new()
}

/// Returns `true` if this build supports image generation with a provider.
pub(crate) const fn supports_images(provider: Provider) -> bool {
    match provider {
        Provider::OpenAi => cfg!(feature = "openai"),
        Provider::Gemini => cfg!(feature = "gemini"),
        Provider::Anthropic | Provider::SelfHosted | Provider::Other => false,
    }
}

/// Creates an image model of a hosted provider.
#[cfg_attr(
    not(feature = "gemini"),
    expect(unused_variables, clippy::needless_pass_by_value, reason = "only Gemini uses all arguments")
)]
pub(crate) fn image_model(
    provider: Provider,
    id: &str,
    endpoint: Endpoint,
    http: &Http,
    version: Option<String>,
) -> Result<Arc<dyn ImageModel>, ModelsError> {
    match provider {
        #[cfg(feature = "openai")]
        Provider::OpenAi => Ok(meerkat_providers::openai_images(id.to_owned(), endpoint, http.clone())),
        #[cfg(feature = "gemini")]
        Provider::Gemini => {
            Ok(meerkat_providers::gemini_images(id.to_owned(), endpoint, http.clone(), version))
        }
        _ => Err(not_compiled(provider)),
    }
}

/// Creates a model of a hosted provider.
#[cfg_attr(
    not(any(feature = "anthropic", feature = "gemini")),
    expect(
        unused_variables,
        reason = "only these two have versions, and a build without providers uses none of the arguments"
    )
)]
pub(crate) fn hosted_model(
    info: &ModelInfo,
    endpoint: &Endpoint,
    http: &Http,
    version: Option<&str>,
) -> Result<Arc<dyn Model>, ModelsError> {
    match info.provider {
        #[cfg(feature = "anthropic")]
        Provider::Anthropic => {
            Ok(meerkat_providers::anthropic(info.clone(), endpoint.clone(), http.clone(), version))
        }
        #[cfg(feature = "openai")]
        Provider::OpenAi => Ok(meerkat_providers::responses(info.clone(), endpoint.clone(), http.clone())),
        #[cfg(feature = "gemini")]
        Provider::Gemini => {
            Ok(meerkat_providers::gemini(info.clone(), endpoint.clone(), http.clone(), version))
        }
        _ => Err(not_compiled(info.provider)),
    }
}

/// Creates a model of a self-hosted server; `name` is the server's name for it.
#[cfg(feature = "openai")]
pub(crate) fn self_hosted_model(
    info: ModelInfo,
    name: &str,
    endpoint: Endpoint,
    http: &Http,
    style: ApiStyle,
) -> Result<Arc<dyn Model>, ModelsError> {
    Ok(match style {
        ApiStyle::ChatCompletions => meerkat_providers::chat(info, name.to_owned(), endpoint, http.clone()),
        ApiStyle::Responses => {
            let alias = info.clone();
            let remote = ModelInfo { id: name.to_owned(), ..info };
            meerkat_providers::aliased(alias, meerkat_providers::responses(remote, endpoint, http.clone()))
        }
    })
}

/// Replacement for builds without the `openai` feature: self-hosted models cannot be used.
#[cfg(not(feature = "openai"))]
#[expect(clippy::needless_pass_by_value, reason = "same signature as in builds with providers")]
pub(crate) fn self_hosted_model(
    info: ModelInfo,
    _: &str,
    _: Endpoint,
    _: &Http,
    _: ApiStyle,
) -> Result<Arc<dyn Model>, ModelsError> {
    Err(not_compiled(info.provider))
}

fn not_compiled(provider: Provider) -> ModelsError {
    let feature = match provider {
        Provider::Anthropic => "anthropic",
        Provider::Gemini => "gemini",
        Provider::OpenAi | Provider::SelfHosted | Provider::Other => "openai",
    };
    RequestError::NotCompiled { what: "this provider", feature }.into()
}
