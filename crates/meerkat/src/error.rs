//! What can go wrong, in the words of the facade.

use std::path::{Path, PathBuf};

use meerkat_contracts::{ErrorBody, ImageEnd};
use meerkat_core::run::{Failure, OpeningError};
use meerkat_core::{BlobId, ErrorKind, IdError, ModelError, SchemaError, SessionId, TerminalCause};
use serde_json::{Value, json};

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] meerkat_store::Error),
    /// An id is malformed.
    #[error(transparent)]
    Id(#[from] IdError),
    /// The input does not fit the session.
    #[error(transparent)]
    Opening(#[from] OpeningError),
    /// The output schema is malformed.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The output schema is no valid JSON Schema.
    #[error("`output_schema` is not a valid JSON Schema: {0}")]
    SchemaRules(String),
    /// The arguments of an operation are wrong.
    #[error("{0}")]
    Arguments(String),
    /// No operation has that name.
    #[error("no operation is named `{0}`")]
    UnknownOperation(String),
    /// A config document is wrong.
    #[error("invalid config: {0}")]
    Config(String),
    /// A key of the config is not the caller's to change.
    #[error(
        "`{key}` says where a secret of the owner's goes, which file is read or what is asked about every run, so it is \
         not changed from here; the owner changes it on the command line"
    )]
    ConfigProtected {
        /// The key.
        key: String,
    },
    /// A client that may be any user of this machine asks for more than such a client may have.
    #[error("{what} needs a token; restart this server without `--no-token`, or {instead}")]
    TokenNeeded {
        /// What was asked for.
        what: String,
        /// What to do instead.
        instead: &'static str,
    },
    /// Hooks that make no sense.
    #[error("`hooks_override`: {0}")]
    Hooks(String),
    /// Hooks of a file cannot be used.
    #[cfg(feature = "mcp")]
    #[error("hooks cannot be used, so nothing is run: {0}")]
    HookFiles(#[from] crate::HookFilesError),
    /// Hooks of a run that are not the caller's to choose.
    #[error(
        "`hooks_override`: {what} is for the owner of the realm; on the command line, the owner sets \
         `hooks.client_overrides`"
    )]
    HooksProtected {
        /// What was asked for.
        what: String,
    },
    /// The run was refused before it began; nothing has happened.
    #[error("{}", .0.message)]
    Refused(Failure),
    /// Something is not in this build.
    #[error("{what} is not available in this build (feature `{feature}`)")]
    NotCompiled {
        /// What was asked for.
        what: &'static str,
        /// The cargo feature that would have it.
        feature: &'static str,
    },
    /// Something is switched off.
    #[error("{what} are switched off (`{key}`)")]
    Disabled {
        /// What was asked for.
        what: &'static str,
        /// The key of the config that would switch it on.
        key: &'static str,
    },
    /// Another process has the realm's hub.
    #[error("the realm has a hub already, at `{url}` (process {pid}); end that one, or choose another realm")]
    HubRunning {
        /// Where it is.
        url: String,
        /// The process that runs it.
        pid: u32,
    },
    /// A skill cannot be had.
    #[error("{source}")]
    Skill {
        /// What kind of error it is.
        kind: ErrorKind,
        /// What happened.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No blob has that id.
    #[error("no blob `{0}` is in this realm")]
    BlobNotFound(BlobId),
    /// Too many sessions are at work.
    #[error("{limit} sessions are running, which is the limit (`limits.max_sessions`); try again later")]
    TooManySessions {
        /// How many may run at once.
        limit: usize,
    },
    /// This process has not run the session.
    #[error("session `{0}` was not run by this process yet; resume it first")]
    NotLive(SessionId),
    /// The session has no such MCP server.
    #[error("the session has no MCP server named `{name}`{}", listed(known))]
    UnknownServer {
        /// What was asked for.
        name: String,
        /// Those it has.
        known: Vec<String>,
    },
    /// The MCP server is not in the file it was to be removed from.
    #[error("no MCP server is named `{name}` in {file}")]
    NotInFile {
        /// What was asked for.
        name: String,
        /// The file.
        file: String,
    },
    /// A run cannot start without an MCP server that is not there.
    #[error("the required MCP server `{server}` is not ready: {reason}")]
    RequiredServer {
        /// Its name.
        server: String,
        /// Why.
        reason: String,
    },
    /// What is registered cannot be had.
    #[cfg(feature = "registry")]
    #[error(transparent)]
    Registry(#[from] meerkat_registry::Error),
    /// A function could not be called through the hub.
    #[cfg(feature = "registry")]
    #[error("`{function}` failed: {source}")]
    Function {
        /// Its id.
        function: String,
        /// What happened.
        source: meerkat_registry::BusError,
    },
    /// The hub cannot be made.
    #[cfg(feature = "registry")]
    #[error(transparent)]
    Hub(#[from] meerkat_hub::HubError),
    /// A file of MCP servers could not be used.
    #[cfg(feature = "mcp")]
    #[error(transparent)]
    ServerFiles(#[from] crate::servers::ServerFilesError),
    /// Something went wrong with a session that the request named.
    #[error("{source}")]
    OfSession {
        /// The session's id.
        id: SessionId,
        /// The session with its realm.
        reference: String,
        /// What went wrong.
        source: Box<Self>,
    },
    /// No event stream has that id.
    #[error("no event stream `{0}` is open here: it was closed, or opened before a restart; open another")]
    UnknownStream(uuid::Uuid),
    /// An event stream was closed because nobody read it.
    #[error(
        "the event stream `{id}` was closed because it was not read and others needed the room, or for half an \
         hour; open another with `after` {after} to go on where it stood"
    )]
    StreamUnread {
        /// The stream.
        id: uuid::Uuid,
        /// The session it was of.
        session: SessionId,
        /// The last event that was read from it.
        after: u64,
    },
    /// There is no room for another event stream.
    #[error("{limit} event streams are being read and there is no room for more; close one first")]
    TooManyStreams {
        /// How many may be open.
        limit: usize,
    },
    /// No model can be had by that name.
    #[error("no model `{model}` can be used: {reason}")]
    Model {
        /// What was asked for.
        model: String,
        /// Why not.
        reason: String,
    },
    /// There is no image.
    #[error("no image was made: {source}")]
    Image {
        /// How the request ended.
        end: ImageEnd,
        /// What happened.
        source: ModelError,
    },
    /// The caller did not wait for the answer.
    #[error("the request was cancelled")]
    Abandoned,
    /// The run ended in failure.
    #[error("{}", failure.message)]
    Failed {
        /// The session, which can be resumed.
        session: SessionRef,
        /// What happened.
        failure: Failure,
    },
    /// The run was interrupted.
    #[error("the run was interrupted; {}", session.prospect())]
    Cancelled {
        /// The session, which can be resumed.
        session: SessionRef,
    },
    /// A run could no longer write.
    #[error("the run could not be stored: {source}")]
    Unstored {
        /// The session, which can be resumed.
        session: SessionRef,
        /// What the store said.
        source: meerkat_store::Error,
    },
    /// The run broke off by a fault of ours, or of a model or a listener.
    #[error("internal error: the run broke off: {source}")]
    BrokenOff {
        /// The session, which can be resumed.
        session: SessionRef,
        /// How.
        source: tokio::task::JoinError,
    },
    /// A stored record could not be read.
    #[error("cannot read the stored {what}{}: {source}", in_file(file.as_deref()))]
    Record {
        /// What it is.
        what: &'static str,
        /// What is wrong with it.
        source: serde_json::Error,
        /// The file it is in, where that is known.
        file: Option<PathBuf>,
    },
    /// The structured output that was asked for could not be had.
    #[error("there is no structured output: {0}")]
    NoStructuredOutput(String),
    /// A record could not be written.
    #[error("internal error: a record could not be written: {0}")]
    Encode(serde_json::Error),
    /// A fault of ours.
    #[error("internal error: {0}")]
    Internal(String),
}

/// Returns the kind of a failed run.
const fn kind_of(failure: &Failure) -> ErrorKind {
    match failure.cause {
        TerminalCause::HookDenied => ErrorKind::HookDenied,
        TerminalCause::BudgetExhausted => ErrorKind::BudgetExhausted,
        _ => ErrorKind::AgentError,
    }
}

/// Lists names for whoever got one wrong.
fn listed(known: &[String]) -> String {
    if known.is_empty() { String::new() } else { format!("; it has `{}`", known.join("`, `")) }
}

/// Names a file, where it is known.
fn in_file(file: Option<&Path>) -> String {
    file.map(|file| format!(" in `{}`", file.display())).unwrap_or_default()
}

/// A session and whether the failed request created it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRef {
    /// The session.
    pub id: SessionId,
    /// The session with its realm.
    pub reference: String,
    /// Whether the failed request created it.
    pub created: bool,
    /// Whether it takes another prompt; one that is archived does not.
    pub resumable: bool,
}

impl Error {
    /// Returns the kind, which decides everything but the words.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Store(error) | Self::Unstored { source: error, .. } => error.kind(),
            Self::Id(_)
            | Self::Opening(_)
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
            Self::Registry(error) => crate::registry::kind(error),
            #[cfg(feature = "registry")]
            Self::Function { source, .. } => crate::registry::bus_kind(source),
            #[cfg(feature = "registry")]
            Self::Hub(_) => ErrorKind::InvalidParams,
            Self::NotLive(_) => ErrorKind::SessionNotRunning,
            Self::OfSession { source, .. } => source.kind(),
            Self::Skill { kind, .. } => *kind,
            Self::Disabled { .. }
            | Self::HubRunning { .. }
            | Self::NotCompiled { .. }
            | Self::TooManyStreams { .. }
            | Self::TooManySessions { .. }
            | Self::TokenNeeded { .. }
            | Self::RequiredServer { .. } => ErrorKind::CapabilityUnavailable,
            Self::Model { .. } | Self::Image { .. } => ErrorKind::ProviderError,
            Self::Failed { failure, .. } | Self::Refused(failure) => kind_of(failure),
            Self::NoStructuredOutput(_) => ErrorKind::AgentError,
            Self::Cancelled { .. } | Self::Abandoned => ErrorKind::RequestCancelled,
            Self::Record { .. } => ErrorKind::StoreError,
            Self::BrokenOff { .. } | Self::Encode(_) | Self::Internal(_) => ErrorKind::Internal,
        }
    }

    /// Returns more for programs, where there is more.
    #[must_use]
    pub fn data(&self) -> Option<Value> {
        match self {
            Self::Failed { session, failure } => {
                let mut data = session.data();
                data["error_class"] = json!(failure.class);
                data["terminal_cause_kind"] = json!(failure.cause);
                Some(data)
            }
            Self::Refused(failure) => {
                Some(json!({ "error_class": failure.class, "terminal_cause_kind": failure.cause }))
            }
            Self::Cancelled { session }
            | Self::Unstored { session, .. }
            | Self::BrokenOff { session, .. } => Some(session.data()),
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
            Self::OfSession { id, reference, source } => {
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

    /// Says what to do next, where we know.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Store(error) | Self::Unstored { source: error, .. } => error.hint(),
            Self::OfSession { source, .. } => source.hint(),
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
    /// Says what can become of the session.
    const fn prospect(&self) -> &'static str {
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
