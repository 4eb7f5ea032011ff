//! Errors of the facade.

use std::path::{Path, PathBuf};

use meerkat_contracts::{ErrorBody, ImageEnd};
use meerkat_core::run::{Failure, InputError};
use meerkat_core::{BlobId, ErrorKind, IdError, ModelError, SchemaError, SessionId, TerminalCause};
use serde_json::{Value, json};

/// Error of a request.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store rejected the request or failed.
    #[error(transparent)]
    Store(#[from] meerkat_store::Error),
    /// An id is malformed.
    #[error(transparent)]
    Id(#[from] IdError),
    /// The input does not match the session's state.
    #[error(transparent)]
    InvalidInput(#[from] InputError),
    /// The output schema is malformed.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The output schema is not a valid JSON Schema.
    #[error("`output_schema` is not a valid JSON Schema: {0}")]
    SchemaRules(String),
    /// The arguments of an operation are invalid.
    #[error("{0}")]
    Arguments(String),
    /// No operation has this name.
    #[error("unknown operation `{0}`")]
    UnknownOperation(String),
    /// A config document is invalid.
    #[error("invalid config: {0}")]
    Config(String),
    /// A config key that only the realm's owner can change.
    #[error("`{key}` can only be changed by the realm's owner, on the command line")]
    ConfigProtected {
        /// The config key.
        key: String,
    },
    /// An anonymous client, which may be any user of this machine, requested something that needs a token.
    #[error("{what} needs a token; restart this server without `--no-token`, or {instead}")]
    TokenNeeded {
        /// Description of the request.
        what: String,
        /// The alternative to suggest.
        instead: &'static str,
    },
    /// Invalid hooks in a request.
    #[error("`hooks_override`: {0}")]
    Hooks(String),
    /// Hooks of a file cannot be loaded.
    #[cfg(feature = "mcp")]
    #[error("cannot load hooks, so nothing was run: {0}")]
    HookFiles(#[from] crate::HookFilesError),
    /// Hooks that only the realm's owner can set for a run.
    #[error(
        "`hooks_override`: {what} is restricted to the owner of the realm; on the command line, the owner can set \
         `hooks.client_overrides`"
    )]
    HooksProtected {
        /// Description of the request.
        what: String,
    },
    /// The run was rejected before it started; nothing was stored.
    #[error("{}", .0.message)]
    Rejected(Failure),
    /// A feature is not in this build.
    #[error("{what} is not available in this build (feature `{feature}`)")]
    NotCompiled {
        /// Name of the missing feature.
        what: &'static str,
        /// The cargo feature that provides it.
        feature: &'static str,
    },
    /// A feature is disabled in the config.
    #[error("{what} are disabled (`{key}`)")]
    Disabled {
        /// Name of the disabled feature.
        what: &'static str,
        /// The config key that enables it.
        key: &'static str,
    },
    /// Another process runs the realm's hub.
    #[error("the realm already has a hub at `{url}` (pid {pid}); stop it or use another realm")]
    HubRunning {
        /// URL of the hub.
        url: String,
        /// Id of the process that runs the hub.
        pid: u32,
    },
    /// A skill cannot be loaded.
    #[error("{source}")]
    Skill {
        /// Kind of the error.
        kind: ErrorKind,
        /// The underlying error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No blob has this id.
    #[error("no blob `{0}` in this realm")]
    BlobNotFound(BlobId),
    /// Too many sessions are running.
    #[error("{limit} sessions are running, which is the limit (`limits.max_sessions`); try again later")]
    TooManySessions {
        /// Maximum number of running sessions.
        limit: usize,
    },
    /// The session is not loaded in this process.
    #[error("session `{0}` is not loaded in this process; resume it first")]
    SessionNotLoaded(SessionId),
    /// The session has no such MCP server.
    #[error("the session has no MCP server named `{name}`{}", known_names(known))]
    UnknownServer {
        /// The requested name.
        name: String,
        /// Names of the session's servers.
        known: Vec<String>,
    },
    /// The MCP server is not in the file it was to be removed from.
    #[error("no MCP server named `{name}` in {file}")]
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
    /// An MCP config file cannot be used.
    #[cfg(feature = "mcp")]
    #[error(transparent)]
    ServerFiles(#[from] crate::servers::ServerFilesError),
    /// An error related to a session of the request.
    #[error("{source}")]
    InSession {
        /// The session's id.
        id: SessionId,
        /// The session with its realm.
        reference: String,
        /// The underlying error.
        source: Box<Self>,
    },
    /// No event stream has this id.
    #[error("event stream `{0}` is not open: it was closed or predates a restart; open a new one")]
    UnknownStream(uuid::Uuid),
    /// An event stream was closed because it was idle.
    #[error(
        "event stream `{id}` was closed because it was idle; open a new one with `after: {after}` to continue"
    )]
    StreamUnread {
        /// Id of the stream.
        id: uuid::Uuid,
        /// The stream's session.
        session: SessionId,
        /// Sequence number of the last event that was read from it.
        after: u64,
    },
    /// Too many event streams are being read.
    #[error("cannot open another event stream: {limit} are being read, which is the limit; close one first")]
    TooManyStreams {
        /// Maximum number of open streams.
        limit: usize,
    },
    /// The requested model cannot be used.
    #[error("cannot use model `{model}`: {reason}")]
    Model {
        /// The requested model.
        model: String,
        /// The reason.
        reason: String,
    },
    /// No image was generated.
    #[error("cannot generate the image: {source}")]
    Image {
        /// Outcome of the request.
        end: ImageEnd,
        /// The underlying error.
        source: ModelError,
    },
    /// The request was cancelled before anything was durable.
    #[error("the request was cancelled")]
    RequestCancelled,
    /// The run failed.
    #[error("{}", failure.message)]
    Failed {
        /// The session, which can be resumed.
        session: SessionRef,
        /// The failure.
        failure: Failure,
    },
    /// The run was interrupted.
    #[error("the run was interrupted; {}", session.resume_note())]
    Cancelled {
        /// The session, which can be resumed.
        session: SessionRef,
    },
    /// The store failed during the run.
    #[error("cannot store the run: {source}")]
    NotPersisted {
        /// The session, which can be resumed.
        session: SessionRef,
        /// The store's error.
        source: meerkat_store::Error,
    },
    /// The run crashed because of a bug in Meerkat, a model, or a listener.
    #[error("internal error: the run crashed: {source}")]
    RunCrashed {
        /// The session, which can be resumed.
        session: SessionRef,
        /// The error of the run's task.
        source: tokio::task::JoinError,
    },
    /// A stored record cannot be read.
    #[error("cannot read the stored {what}{}: {source}", in_file(file.as_deref()))]
    Record {
        /// Kind of record.
        what: &'static str,
        /// The decoding error.
        source: serde_json::Error,
        /// The file that contains it, if known.
        file: Option<PathBuf>,
    },
    /// The run produced no valid structured output.
    #[error("no structured output: {0}")]
    NoStructuredOutput(String),
    /// A record cannot be encoded.
    #[error("internal error: cannot encode a record: {0}")]
    Encode(serde_json::Error),
    /// A bug in Meerkat.
    #[error("internal error: {0}")]
    Internal(String),
}

/// Returns the kind of a failed run.
const fn failure_kind(failure: &Failure) -> ErrorKind {
    match failure.cause {
        TerminalCause::HookDenied => ErrorKind::HookDenied,
        TerminalCause::BudgetExhausted => ErrorKind::BudgetExhausted,
        _ => ErrorKind::AgentError,
    }
}

/// Formats the known names for an error message.
fn known_names(known: &[String]) -> String {
    if known.is_empty() { String::new() } else { format!("; it has `{}`", known.join("`, `")) }
}

/// Formats a file for an error message, if it is known.
fn in_file(file: Option<&Path>) -> String {
    file.map(|file| format!(" in `{}`", file.display())).unwrap_or_default()
}

/// A session and whether the failed request created it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRef {
    /// Session id.
    pub id: SessionId,
    /// The session with its realm.
    pub reference: String,
    /// Whether the failed request created it.
    pub created: bool,
    /// Whether the session can be resumed; an archived one cannot.
    pub resumable: bool,
}

impl Error {
    /// Returns the kind of the error, which determines its code.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Store(error) | Self::NotPersisted { source: error, .. } => error.kind(),
            Self::Id(_)
            | Self::InvalidInput(_)
            | Self::Schema(_)
            | Self::SchemaRules(_)
            | Self::Arguments(_)
            | Self::UnknownOperation(_)
            | Self::Config(_)
            | Self::ConfigProtected { .. }
            | Self::Hooks(_)
            | Self::HooksProtected { .. }
            | Self::BlobNotFound(_)
            | Self::UnknownStream(_)
            | Self::StreamUnread { .. }
            | Self::UnknownServer { .. }
            | Self::NotInFile { .. } => ErrorKind::InvalidParams,
            #[cfg(feature = "mcp")]
            Self::ServerFiles(_) | Self::HookFiles(_) => ErrorKind::InvalidParams,
            #[cfg(feature = "registry")]
            Self::Registry(error) => crate::realm_registry::kind(error),
            #[cfg(feature = "registry")]
            Self::Function { source, .. } => crate::realm_registry::bus_kind(source),
            #[cfg(feature = "registry")]
            Self::Hub(_) => ErrorKind::InvalidParams,
            Self::SessionNotLoaded(_) => ErrorKind::SessionNotRunning,
            Self::InSession { source, .. } => source.kind(),
            Self::Skill { kind, .. } => *kind,
            Self::Disabled { .. }
            | Self::HubRunning { .. }
            | Self::NotCompiled { .. }
            | Self::TooManyStreams { .. }
            | Self::TooManySessions { .. }
            | Self::TokenNeeded { .. }
            | Self::RequiredServer { .. } => ErrorKind::CapabilityUnavailable,
            Self::Model { .. } | Self::Image { .. } => ErrorKind::ProviderError,
            Self::Failed { failure, .. } | Self::Rejected(failure) => failure_kind(failure),
            Self::NoStructuredOutput(_) => ErrorKind::AgentError,
            Self::Cancelled { .. } | Self::RequestCancelled => ErrorKind::RequestCancelled,
            Self::Record { .. } => ErrorKind::StoreError,
            Self::RunCrashed { .. } | Self::Encode(_) | Self::Internal(_) => ErrorKind::Internal,
        }
    }

    /// Returns machine-readable details, if there are any.
    #[must_use]
    pub fn data(&self) -> Option<Value> {
        match self {
            Self::Failed { session, failure } => {
                let mut data = session.data();
                data["error_class"] = json!(failure.class);
                data["terminal_cause_kind"] = json!(failure.cause);
                Some(data)
            }
            Self::Rejected(failure) => {
                Some(json!({ "error_class": failure.class, "terminal_cause_kind": failure.cause }))
            }
            Self::Cancelled { session }
            | Self::NotPersisted { session, .. }
            | Self::RunCrashed { session, .. } => Some(session.data()),
            Self::Image { end, source } => Some(json!({
                "terminal": { "terminal": end },
                "provider": source.provider,
                "kind": source.kind,
                "status": source.status,
            })),
            Self::Store(meerkat_store::Error::Generation { expected, current }) => Some(json!({
                "type": "generation_conflict",
                "expected_generation": expected,
                "current_generation": current,
            })),
            Self::StreamUnread { session, after, .. } => {
                Some(json!({ "type": "stream_unread", "session_id": session, "after": after }))
            }
            Self::ConfigProtected { key } => Some(json!({ "type": "config_protected", "key": key })),
            Self::TokenNeeded { .. } => Some(json!({ "type": "token_needed" })),
            Self::BlobNotFound(id) => Some(json!({ "type": "blob_not_found", "blob_id": id })),
            Self::TooManyStreams { limit } | Self::TooManySessions { limit } => {
                Some(json!({ "type": "limit_reached", "limit": limit }))
            }
            Self::InSession { id, reference, source } => {
                let mut data = source.data().unwrap_or_else(|| json!({}));
                if data.get("session_id").is_none() {
                    data["session_id"] = json!(id);
                    data["session_ref"] = json!(reference);
                }
                Some(data)
            }
            _ => None,
        }
    }

    /// Returns a hint about what to do next, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Store(error) | Self::NotPersisted { source: error, .. } => error.hint(),
            Self::InSession { source, .. } => source.hint(),
            Self::Record { source, .. } if source.is_data() => {
                Some("a newer version may have written it; `rkat doctor` checks the file".to_owned())
            }
            Self::Record { .. } => {
                Some("it is damaged: restore the file from a backup; `rkat doctor` checks it".to_owned())
            }
            _ => None,
        }
    }

    /// Returns the error as every surface shows it.
    #[must_use]
    pub fn body(&self) -> ErrorBody {
        let mut message = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            if !message.contains(&cause_text) {
                message = format!("{message}: {cause_text}");
            }
            source = cause.source();
        }
        if let Some(hint) = self.hint() {
            message = format!("{message}; {hint}");
        }
        ErrorBody { code: self.kind().code().to_owned(), message, data: self.data() }
    }
}

impl SessionRef {
    /// Returns a note on whether the session can be resumed.
    const fn resume_note(&self) -> &'static str {
        if self.resumable { "the session can be resumed" } else { "the session was archived" }
    }

    fn data(&self) -> Value {
        json!({
            "session_id": self.id,
            "session_ref": self.reference,
            "session_created": self.created,
            "resumable": self.resumable,
        })
    }
}
