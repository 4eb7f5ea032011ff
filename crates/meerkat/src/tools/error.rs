//! Errors of tools, skills, and registered functions.

use meerkat_contracts::ImageEnd;
use meerkat_core::{BlobId, ErrorKind, ModelError, SessionId, excerpt};
use serde_json::{Value, json};

use crate::coded::Coded;
use crate::config::ConfigError;
use crate::models::ModelsError;
use crate::records::RecordError;
use crate::request_error::RequestError;

/// Error of a tool, a skill, an MCP server, or the registry.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolsError {
    /// The request cannot be served as it is.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// A record cannot be read or stored.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The config cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The requested model cannot be used.
    #[error(transparent)]
    Models(#[from] ModelsError),
    /// No image was generated.
    #[error("cannot generate the image: {source}")]
    Image {
        /// Outcome of the request.
        end: ImageEnd,
        /// The underlying error.
        source: ModelError,
    },
    /// No blob has this id.
    #[error("no blob `{0}` in this realm")]
    BlobNotFound(BlobId),
    /// A skill cannot be loaded.
    #[error("{source}")]
    Skill {
        /// Kind of the error.
        kind: ErrorKind,
        /// The underlying error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The session is not loaded in this process.
    #[error("session `{0}` is not loaded in this process; resume it first")]
    SessionNotLoaded(SessionId),
    /// The session has no such MCP server.
    #[error("the session has no MCP server named `{}`{}", excerpt(name), known_names(known))]
    UnknownServer {
        /// The requested name.
        name: String,
        /// Names of the session's servers.
        known: Vec<String>,
    },
    /// The MCP server is not in the file it was to be removed from.
    #[error("no MCP server named `{}` in {file}", excerpt(name))]
    NotInFile {
        /// The requested name.
        name: String,
        /// The file.
        file: String,
    },
    /// A required MCP server is not available, so the run cannot start.
    #[error("the required MCP server `{server}` is not ready: {reason}")]
    RequiredServer {
        /// Name of the server.
        server: String,
        /// The reason.
        reason: String,
    },
    /// An MCP config file cannot be used.
    #[cfg(feature = "mcp")]
    #[error(transparent)]
    ServerFiles(#[from] super::ServerFilesError),
    /// Another process runs the realm's hub.
    #[error("the realm already has a hub at `{url}` (pid {pid}); stop it or use another realm")]
    HubRunning {
        /// URL of the hub.
        url: String,
        /// Id of the process that runs the hub.
        pid: u32,
    },
    /// The registry rejected the request or failed.
    #[cfg(feature = "registry")]
    #[error(transparent)]
    Registry(#[from] meerkat_registry::Error),
    /// A function could not be called through the hub.
    #[cfg(feature = "registry")]
    #[error("`{function}` failed: {source}")]
    Function {
        /// Id of the function.
        function: String,
        /// The underlying error.
        source: meerkat_registry::BusError,
    },
    /// The hub cannot be created.
    #[cfg(feature = "registry")]
    #[error(transparent)]
    Hub(#[from] meerkat_hub::HubError),
    /// A bug in Meerkat: a task crashed.
    #[error("internal error: {0}")]
    Crashed(#[from] tokio::task::JoinError),
}

impl From<meerkat_store::Error> for ToolsError {
    fn from(error: meerkat_store::Error) -> Self {
        Self::Record(error.into())
    }
}

impl Coded for ToolsError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Request(error) => error.kind(),
            Self::Record(error) => error.kind(),
            Self::Config(error) => error.kind(),
            Self::Models(error) => error.kind(),
            Self::Image { .. } => ErrorKind::ProviderError,
            Self::Skill { kind, .. } => *kind,
            Self::SessionNotLoaded(_) => ErrorKind::SessionNotRunning,
            Self::BlobNotFound(_) | Self::UnknownServer { .. } | Self::NotInFile { .. } => {
                ErrorKind::InvalidParams
            }
            #[cfg(feature = "mcp")]
            Self::ServerFiles(_) => ErrorKind::InvalidParams,
            Self::RequiredServer { .. } | Self::HubRunning { .. } => ErrorKind::CapabilityUnavailable,
            #[cfg(feature = "registry")]
            Self::Registry(error) => super::registry::kind(error),
            #[cfg(feature = "registry")]
            Self::Function { source, .. } => super::registry::bus_kind(source),
            #[cfg(feature = "registry")]
            Self::Hub(_) => ErrorKind::InvalidParams,
            Self::Crashed(_) => ErrorKind::Internal,
        }
    }

    fn data(&self) -> Option<Value> {
        match self {
            Self::Request(error) => error.data(),
            Self::Record(error) => error.data(),
            Self::Config(error) => error.data(),
            Self::Models(error) => error.data(),
            Self::Image { end, source } => Some(json!({
                "terminal": { "terminal": end },
                "provider": source.provider,
                "kind": source.kind,
                "status": source.status,
            })),
            Self::BlobNotFound(id) => Some(json!({ "type": "blob_not_found", "blob_id": id })),
            _ => None,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Record(error) => error.hint(),
            Self::Config(error) => error.hint(),
            _ => None,
        }
    }
}

/// Formats the known names for an error message.
fn known_names(known: &[String]) -> String {
    if known.is_empty() { String::new() } else { format!("; it has `{}`", known.join("`, `")) }
}
