//! What this build has: the one place that knows cargo features.

use std::sync::Arc;

use meerkat_capabilities::{CapabilityId, Declaration, Presence};
use meerkat_core::{ImageModel, Model, ModelInfo, Provider};
use meerkat_providers::Endpoint;

use crate::Error;
use crate::config::ApiStyle;

/// Whether long conversations are shortened.
pub(crate) const COMPACTION: bool = cfg!(feature = "session-compaction");

/// Whether sessions can survive the process.
pub(crate) const SESSION_STORE: bool = cfg!(feature = "session-store");

/// Declares every capability, in the order of reports.
pub(crate) fn declarations() -> Vec<Declaration> {
    let built = |yes: bool, feature| {
        if yes { Presence::Always } else { Presence::Absent(feature) }
    };
    let presence = |id| match id {
        CapabilityId::Sessions | CapabilityId::Streaming | CapabilityId::StructuredOutput => Presence::Always,
        CapabilityId::SessionStore => built(SESSION_STORE, "session-store"),
        CapabilityId::SessionCompaction => built(COMPACTION, "session-compaction"),
        CapabilityId::Hooks => Presence::Absent("hooks"),
        CapabilityId::Builtins => Presence::Gated("tools.builtins_enabled"),
        CapabilityId::Shell => Presence::Absent("shell"),
        CapabilityId::Comms => Presence::Absent("comms"),
        CapabilityId::MemoryStore => Presence::Absent("memory-store-session"),
        CapabilityId::Schedule => Presence::Absent("schedule"),
        CapabilityId::WorkGraph => Presence::Absent("workgraph"),
        CapabilityId::Skills => Presence::Absent("skills"),
        CapabilityId::McpLive => Presence::Absent("mcp"),
    };
    CapabilityId::ALL.iter().map(|id| Declaration { id: *id, presence: presence(*id) }).collect()
}

/// What reaches a provider.
#[cfg(any(feature = "anthropic", feature = "openai", feature = "gemini"))]
pub(crate) use meerkat_providers::Http as Reach;

/// A build without providers reaches nobody.
#[cfg(not(any(feature = "anthropic", feature = "openai", feature = "gemini")))]
#[derive(Default)]
pub(crate) struct Reach {}

/// Says what a provider cannot take of an output schema.
#[cfg(any(feature = "anthropic", feature = "openai", feature = "gemini"))]
pub(crate) use meerkat_providers::schema_warnings;

/// A build without providers has nobody to object.
#[cfg(not(any(feature = "anthropic", feature = "openai", feature = "gemini")))]
pub(crate) fn schema_warnings(_: Provider, _: &serde_json::Value) -> Vec<meerkat_core::SchemaWarning> {
    Vec::new()
}

/// Says whether this build can ask a provider for pictures.
pub(crate) const fn makes_images(provider: Provider) -> bool {
    match provider {
        Provider::OpenAi => cfg!(feature = "openai"),
        Provider::Gemini => cfg!(feature = "gemini"),
        Provider::Anthropic | Provider::SelfHosted | Provider::Other => false,
    }
}

/// Makes an image model of a hosted provider.
#[cfg_attr(
    not(feature = "gemini"),
    expect(unused_variables, clippy::needless_pass_by_value, reason = "only Gemini needs all of it")
)]
pub(crate) fn image_model(
    provider: Provider,
    id: &str,
    endpoint: Endpoint,
    reach: &Reach,
    version: Option<String>,
) -> Result<Arc<dyn ImageModel>, Error> {
    match provider {
        #[cfg(feature = "openai")]
        Provider::OpenAi => Ok(meerkat_providers::openai_images(id.to_owned(), endpoint, reach.clone())),
        #[cfg(feature = "gemini")]
        Provider::Gemini => {
            Ok(meerkat_providers::gemini_images(id.to_owned(), endpoint, reach.clone(), version))
        }
        _ => Err(absent(provider)),
    }
}

/// Makes a model of a hosted provider.
#[cfg_attr(
    not(any(feature = "anthropic", feature = "gemini")),
    expect(
        unused_variables,
        reason = "only these two have versions, and a build without providers needs nothing"
    )
)]
pub(crate) fn hosted_model(
    info: &ModelInfo,
    endpoint: &Endpoint,
    reach: &Reach,
    version: Option<&str>,
) -> Result<Arc<dyn Model>, Error> {
    match info.provider {
        #[cfg(feature = "anthropic")]
        Provider::Anthropic => {
            let mut options = meerkat_providers::AnthropicOptions::default();
            if let Some(version) = version {
                version.clone_into(&mut options.version);
            }
            let reach = reach.clone();
            Ok(meerkat_providers::anthropic_with(info.clone(), endpoint.clone(), reach, options))
        }
        #[cfg(feature = "openai")]
        Provider::OpenAi => Ok(meerkat_providers::responses(info.clone(), endpoint.clone(), reach.clone())),
        #[cfg(feature = "gemini")]
        Provider::Gemini => Ok(match version {
            None => meerkat_providers::gemini(info.clone(), endpoint.clone(), reach.clone()),
            Some(version) => {
                let options = meerkat_providers::GeminiOptions { version: version.to_owned() };
                meerkat_providers::gemini_with(info.clone(), endpoint.clone(), reach.clone(), options)
            }
        }),
        _ => Err(absent(info.provider)),
    }
}

/// Makes a model of a server of the user's own, which calls it `name`.
#[cfg(feature = "openai")]
pub(crate) fn self_hosted_model(
    info: ModelInfo,
    name: &str,
    endpoint: Endpoint,
    reach: &Reach,
    style: ApiStyle,
) -> Result<Arc<dyn Model>, Error> {
    Ok(match style {
        ApiStyle::ChatCompletions => meerkat_providers::chat(info, name.to_owned(), endpoint, reach.clone()),
        ApiStyle::Responses => {
            let alias = info.clone();
            let remote = ModelInfo { id: name.to_owned(), ..info };
            meerkat_providers::aliased(alias, meerkat_providers::responses(remote, endpoint, reach.clone()))
        }
    })
}

/// Nothing is compiled in that could speak to a server of the user's own.
#[cfg(not(feature = "openai"))]
#[expect(clippy::needless_pass_by_value, reason = "as in the builds that can")]
pub(crate) fn self_hosted_model(
    info: ModelInfo,
    _: &str,
    _: Endpoint,
    _: &Reach,
    _: ApiStyle,
) -> Result<Arc<dyn Model>, Error> {
    Err(absent(info.provider))
}

fn absent(provider: Provider) -> Error {
    let feature = match provider {
        Provider::Anthropic => "anthropic",
        Provider::Gemini => "gemini",
        Provider::OpenAi | Provider::SelfHosted | Provider::Other => "openai",
    };
    Error::NotCompiled { what: "this provider", feature }
}
