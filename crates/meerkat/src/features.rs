//! Features of this build: the only place that depends on cargo features.

use std::collections::BTreeSet;
use std::sync::Arc;

use meerkat_capabilities::{CapabilityId, CapabilityStatus, Declaration, Presence};
use meerkat_core::{ImageModel, Model, ModelInfo, Provider};
use meerkat_fetch::Http;
use meerkat_providers::Endpoint;

use crate::Error;
use crate::config::{ApiStyle, Config};

/// Whether long conversations are compacted.
pub(crate) const COMPACTION: bool = cfg!(feature = "session-compaction");

/// Whether sessions can be stored on disk.
pub(crate) const SESSION_STORE: bool = cfg!(feature = "session-store");

/// Whether agents can search compacted messages.
pub(crate) const MEMORY: bool = cfg!(feature = "memory-store-session");

/// Returns the declarations of all capabilities, in report order.
pub(crate) fn declarations() -> Vec<Declaration> {
    let presence_of = |is_compiled: bool, feature| {
        if is_compiled { Presence::Always } else { Presence::Absent(feature) }
    };
    let presence = |id| match id {
        CapabilityId::Sessions | CapabilityId::Streaming | CapabilityId::StructuredOutput => Presence::Always,
        CapabilityId::SessionStore => presence_of(SESSION_STORE, "session-store"),
        CapabilityId::SessionCompaction => presence_of(COMPACTION, "session-compaction"),
        CapabilityId::Hooks => Presence::Always,
        CapabilityId::Builtins => Presence::Gated("tools.builtins_enabled"),
        CapabilityId::Shell => Presence::Gated("tools.shell_enabled"),
        CapabilityId::Comms => Presence::Absent("comms"),
        CapabilityId::MemoryStore if MEMORY => Presence::Gated("memory.enabled"),
        CapabilityId::MemoryStore => Presence::Absent("memory-store-session"),
        CapabilityId::Schedule => Presence::Absent("schedule"),
        CapabilityId::WorkGraph => Presence::Absent("workgraph"),
        CapabilityId::Skills if cfg!(feature = "skills") => Presence::Gated("skills.enabled"),
        CapabilityId::Skills => Presence::Absent("skills"),
        CapabilityId::Registry if cfg!(feature = "registry") => Presence::Gated("registry.enabled"),
        CapabilityId::Registry => Presence::Absent("registry"),
        CapabilityId::McpLive => presence_of(cfg!(feature = "mcp"), "mcp"),
    };
    CapabilityId::ALL.iter().map(|id| Declaration { id: *id, presence: presence(*id) }).collect()
}

/// Returns the ids of capabilities that are compiled in and enabled.
pub(crate) fn available(config: &Config) -> BTreeSet<String> {
    let is_on = |declaration: &Declaration| {
        declaration.status(|key| config.is_enabled(key)) == CapabilityStatus::Available
    };
    declarations().iter().filter(|item| is_on(item)).map(|item| item.id.as_str().to_owned()).collect()
}

/// Returns instructions for enabling each capability, in case it is unavailable.
#[cfg(feature = "skills")]
pub(crate) fn enable_hints() -> std::collections::BTreeMap<String, String> {
    let gate = |declaration: &Declaration| match declaration.presence {
        Presence::Gated(key) => format!("set `{key}` to `true` in the config"),
        Presence::Absent(feature) => format!("use a build with the cargo feature `{feature}`"),
        // A capability in the build may be missing in a realm in memory.
        Presence::Always => "use a realm that is stored on disk".to_owned(),
    };
    declarations().iter().map(|item| (item.id.as_str().to_owned(), gate(item))).collect()
}

/// The MCP servers of a runtime.
#[cfg(feature = "mcp")]
pub(crate) use crate::servers::RuntimeServers as Servers;

/// Replacement for builds without the MCP client: no servers.
#[cfg(not(feature = "mcp"))]
pub(crate) struct Servers;

#[cfg(not(feature = "mcp"))]
impl Servers {
    pub(crate) fn source(
        &self,
        _: meerkat_core::SessionId,
        _: Option<u64>,
    ) -> Option<Arc<dyn meerkat_core::ToolSource>> {
        None
    }

    pub(crate) async fn require(&self) -> Result<(), Error> {
        Ok(())
    }

    pub(crate) fn forget(&self, _: meerkat_core::SessionId) {}

    pub(crate) async fn close(&self, _: std::time::Duration) {}
}

/// The registry of a runtime.
#[cfg(feature = "registry")]
pub(crate) use crate::realm_registry::RuntimeRegistry;

/// Replacement for builds without the registry: nothing is registered.
#[cfg(not(feature = "registry"))]
pub(crate) struct RuntimeRegistry;

#[cfg(not(feature = "registry"))]
#[expect(clippy::unused_async, reason = "same signature as in builds with a registry")]
impl RuntimeRegistry {
    pub(crate) async fn skills(&self, _: &crate::config::CurrentConfig, _: &crate::Skills) -> Changed {
        Changed::No
    }

    pub(crate) async fn tools(&self, _: &Config) -> Option<Arc<dyn meerkat_core::ToolSource>> {
        None
    }
}

/// The memory of a run.
#[cfg(feature = "memory-store-session")]
pub(crate) use crate::memory::RunMemory;

/// Replacement for builds without memory: nothing is remembered.
#[cfg(not(feature = "memory-store-session"))]
pub(crate) struct RunMemory;

#[cfg(not(feature = "memory-store-session"))]
impl RunMemory {
    pub(crate) fn from_config(
        _: &Config,
        _: &crate::session::SessionSettings,
        _: &Arc<dyn meerkat_store::Store>,
        _: &meerkat_core::run::Progress,
    ) -> Option<Self> {
        None
    }

    pub(crate) fn source(&self) -> Arc<dyn meerkat_core::ToolSource> {
        Arc::new(NoTools)
    }

    pub(crate) fn changes(
        &self,
        _: meerkat_core::SessionId,
        _: &meerkat_core::run::CompactedMessages,
        _: meerkat_core::Timestamp,
    ) -> Option<meerkat_store::Change> {
        None
    }
}

/// Whether registered skills changed since the last check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Changed {
    Yes,
    No,
}

#[cfg(not(feature = "memory-store-session"))]
struct NoTools;

#[cfg(not(feature = "memory-store-session"))]
impl meerkat_core::ToolSource for NoTools {
    fn tools(&self) -> Vec<Arc<dyn meerkat_core::Tool>> {
        Vec::new()
    }
}

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
) -> Result<Arc<dyn ImageModel>, Error> {
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
) -> Result<Arc<dyn Model>, Error> {
    match info.provider {
        #[cfg(feature = "anthropic")]
        Provider::Anthropic => {
            let mut options = meerkat_providers::AnthropicOptions::default();
            if let Some(version) = version {
                version.clone_into(&mut options.version);
            }
            Ok(meerkat_providers::anthropic_with(info.clone(), endpoint.clone(), http.clone(), options))
        }
        #[cfg(feature = "openai")]
        Provider::OpenAi => Ok(meerkat_providers::responses(info.clone(), endpoint.clone(), http.clone())),
        #[cfg(feature = "gemini")]
        Provider::Gemini => Ok(match version {
            None => meerkat_providers::gemini(info.clone(), endpoint.clone(), http.clone()),
            Some(version) => {
                let options = meerkat_providers::GeminiOptions { version: version.to_owned() };
                meerkat_providers::gemini_with(info.clone(), endpoint.clone(), http.clone(), options)
            }
        }),
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
) -> Result<Arc<dyn Model>, Error> {
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
) -> Result<Arc<dyn Model>, Error> {
    Err(not_compiled(info.provider))
}

fn not_compiled(provider: Provider) -> Error {
    let feature = match provider {
        Provider::Anthropic => "anthropic",
        Provider::Gemini => "gemini",
        Provider::OpenAi | Provider::SelfHosted | Provider::Other => "openai",
    };
    Error::NotCompiled { what: "this provider", feature }
}
