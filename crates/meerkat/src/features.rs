//! What this build has: the one place that knows cargo features.

use std::collections::BTreeSet;
use std::sync::Arc;

use meerkat_capabilities::{CapabilityId, CapabilityStatus, Declaration, Presence};
use meerkat_core::{ImageModel, Model, ModelInfo, Provider};
use meerkat_providers::Endpoint;

use crate::Error;
use crate::config::{ApiStyle, Config};

/// Whether long conversations are shortened.
pub(crate) const COMPACTION: bool = cfg!(feature = "session-compaction");

/// Whether sessions can survive the process.
pub(crate) const SESSION_STORE: bool = cfg!(feature = "session-store");

/// Whether agents find what compaction left out.
pub(crate) const MEMORY: bool = cfg!(feature = "memory-store-session");

/// Declares every capability, in the order of reports.
pub(crate) fn declarations() -> Vec<Declaration> {
    let built = |yes: bool, feature| {
        if yes { Presence::Always } else { Presence::Absent(feature) }
    };
    let presence = |id| match id {
        CapabilityId::Sessions | CapabilityId::Streaming | CapabilityId::StructuredOutput => Presence::Always,
        CapabilityId::SessionStore => built(SESSION_STORE, "session-store"),
        CapabilityId::SessionCompaction => built(COMPACTION, "session-compaction"),
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
        CapabilityId::McpLive => built(cfg!(feature = "mcp"), "mcp"),
    };
    CapabilityId::ALL.iter().map(|id| Declaration { id: *id, presence: presence(*id) }).collect()
}

/// Lists what is compiled in and switched on.
pub(crate) fn available(config: &Config) -> BTreeSet<String> {
    let on =
        |declaration: &Declaration| declaration.status(|key| config.gate(key)) == CapabilityStatus::Available;
    declarations().iter().filter(|found| on(found)).map(|found| found.id.as_str().to_owned()).collect()
}

/// Says how to turn on each capability, should it be unavailable.
#[cfg(feature = "skills")]
pub(crate) fn gates() -> std::collections::BTreeMap<String, String> {
    let gate = |declaration: &Declaration| match declaration.presence {
        Presence::Gated(key) => format!("set `{key}` to `true` in the config"),
        Presence::Absent(feature) => format!("use a build with the cargo feature `{feature}`"),
        // A build may have what a realm in memory has not.
        Presence::Always => "use a realm that is stored on disk".to_owned(),
    };
    declarations().iter().map(|found| (found.id.as_str().to_owned(), gate(found))).collect()
}

/// The MCP servers of a runtime.
#[cfg(feature = "mcp")]
pub(crate) use crate::servers::Attached as Servers;

/// A build without the MCP client has no servers.
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

/// What programs registered in a realm.
#[cfg(feature = "registry")]
pub(crate) use crate::registry::Attached as Registered;

/// A build without the registry has nothing registered.
#[cfg(not(feature = "registry"))]
pub(crate) struct Registered;

#[cfg(not(feature = "registry"))]
#[expect(clippy::unused_async, reason = "as in the builds that have a registry")]
impl Registered {
    pub(crate) async fn skills(&self, _: &crate::config::CurrentConfig, _: &crate::Skills) -> Fresh {
        Fresh::No
    }

    pub(crate) async fn tools(&self, _: &Config) -> Option<Arc<dyn meerkat_core::ToolSource>> {
        None
    }
}

/// What a run remembers.
#[cfg(feature = "memory-store-session")]
pub(crate) use crate::memory::RunMemory;

/// A build without memory remembers nothing.
#[cfg(not(feature = "memory-store-session"))]
pub(crate) struct RunMemory;

#[cfg(not(feature = "memory-store-session"))]
impl RunMemory {
    pub(crate) fn of(
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
        _: &meerkat_core::run::LeftOut,
        _: meerkat_core::Timestamp,
    ) -> Option<meerkat_store::Change> {
        None
    }
}

/// Whether there are other registered skills than when it was asked the last time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fresh {
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

/// What reaches a provider.
#[cfg(any(feature = "anthropic", feature = "openai", feature = "gemini"))]
pub(crate) use meerkat_providers::Http as Reach;

/// A build without providers reaches nobody.
#[cfg(not(any(feature = "anthropic", feature = "openai", feature = "gemini")))]
#[derive(Default)]
pub(crate) struct Reach {}

/// Fetches a document that is none of a provider's.
#[cfg(all(feature = "skills", any(feature = "anthropic", feature = "openai", feature = "gemini")))]
pub(crate) async fn fetch(
    reach: &Reach,
    url: &str,
    headers: &[(String, String)],
    limit: usize,
) -> Result<Vec<u8>, meerkat_skills::FetchError> {
    use meerkat_providers::NotFetched;
    use meerkat_skills::FetchError;
    reach.fetch(url, headers, limit).await.map_err(|error| match error {
        NotFetched::Unreachable(why) => FetchError::Unreachable(why),
        NotFetched::Status(status) => FetchError::Status(status),
        NotFetched::TooLong => FetchError::TooLong(limit),
    })
}

/// Sends a hook what it is told, and returns what it answers.
#[cfg(any(feature = "anthropic", feature = "openai", feature = "gemini"))]
pub(crate) async fn deliver(
    reach: &Reach,
    target: (&str, &str),
    headers: &[(String, String)],
    body: &[u8],
    limit: usize,
) -> Result<Vec<u8>, meerkat_core::HookFault> {
    use meerkat_providers::NotFetched;
    reach.send(target, headers, body, limit).await.map_err(|error| {
        meerkat_core::HookFault::broken(match error {
            NotFetched::Unreachable(why) => format!("it cannot be reached: {why}"),
            NotFetched::Status(status) => format!("it answered with HTTP {status}"),
            NotFetched::TooLong => format!("its answer is longer than {limit} bytes"),
        })
    })
}

/// A build without providers reaches no hook.
#[cfg(not(any(feature = "anthropic", feature = "openai", feature = "gemini")))]
#[expect(clippy::unused_async, reason = "as in the builds that can")]
pub(crate) async fn deliver(
    _: &Reach,
    _: (&str, &str),
    _: &[(String, String)],
    _: &[u8],
    _: usize,
) -> Result<Vec<u8>, meerkat_core::HookFault> {
    Err(meerkat_core::HookFault::broken("this build has no HTTP client"))
}

/// A build without providers fetches nothing.
#[cfg(all(feature = "skills", not(any(feature = "anthropic", feature = "openai", feature = "gemini"))))]
#[expect(clippy::unused_async, reason = "as in the builds that can")]
pub(crate) async fn fetch(
    _: &Reach,
    _: &str,
    _: &[(String, String)],
    _: usize,
) -> Result<Vec<u8>, meerkat_skills::FetchError> {
    Err(meerkat_skills::FetchError::Unreachable("this build has no HTTP client".to_owned()))
}

/// Says what a provider cannot take of an output schema.
#[cfg(any(feature = "anthropic", feature = "openai", feature = "gemini"))]
pub(crate) use meerkat_providers::schema_warnings;

/// A build without providers has nobody to object.
#[cfg(not(any(feature = "anthropic", feature = "openai", feature = "gemini")))]
pub(crate) fn schema_warnings(_: Provider, _: &serde_json::Value) -> Vec<meerkat_core::SchemaWarning> {
    Vec::new()
}

/// Says whether this build can ask a provider for images.
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
