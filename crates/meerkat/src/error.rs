//! Errors of the facade: those of each layer, and those of runs and operations.

use meerkat_contracts::ErrorBody;
use meerkat_core::run::{Failure, InputError};
use meerkat_core::{
    ApprovalRequest, ErrorKind, IdError, SchemaError, SessionId, TerminalCause, ToolCall, excerpt,
};
use serde_json::{Value, json};

use crate::coded::Coded;
use crate::config::ConfigError;
use crate::events::StreamError;
use crate::hooks::HooksError;
use crate::models::ModelsError;
use crate::records::RecordError;
use crate::request_error::RequestError;
use crate::schema::InvalidSchema;
use crate::tools::ToolsError;

/// Error of a request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request cannot be served as it is.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// A record cannot be read or stored.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The config cannot be used or changed.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The requested model cannot be used.
    #[error(transparent)]
    Models(#[from] ModelsError),
    /// An event stream cannot be opened or read.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// A tool, a skill, an MCP server, or the registry cannot be used.
    #[error(transparent)]
    Tools(#[from] ToolsError),
    /// The hooks of a run cannot be used.
    #[error(transparent)]
    Hooks(#[from] HooksError),
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
    #[error(transparent)]
    SchemaRules(#[from] InvalidSchema),
    /// No operation has this name.
    #[error("unknown operation `{}`", excerpt(.0))]
    UnknownOperation(String),
    /// The run was rejected before it started; nothing was stored.
    #[error("{}", .0.message)]
    Rejected(Failure),
    /// Too many sessions are running.
    #[error(
        "{limit} sessions are running, which is the limit; try again when a run has ended, or raise \
         `limits.max_sessions`"
    )]
    TooManySessions {
        /// Maximum number of running sessions.
        limit: usize,
    },
    /// [`Runtime::shutdown`](crate::Runtime::shutdown) was called.
    #[error("the runtime is shutting down and starts no runs; nothing was stored")]
    ShuttingDown,
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
    #[error("internal error: the run crashed: {reason}")]
    RunCrashed {
        /// The session, which can be resumed.
        session: SessionRef,
        /// The message of the panic.
        reason: String,
    },
    /// The run ended without an answer.
    #[error(transparent)]
    Stopped(Box<Stopped>),
    /// The run produced no valid structured output.
    #[error("no structured output: {0}")]
    NoStructuredOutput(String),
    /// A bug in Meerkat.
    #[error("internal error: {0}")]
    Internal(String),
}

impl From<meerkat_store::Error> for Error {
    fn from(error: meerkat_store::Error) -> Self {
        Self::Record(error.into())
    }
}

#[cfg(feature = "mcp")]
impl From<crate::tools::ServerFilesError> for Error {
    fn from(error: crate::tools::ServerFilesError) -> Self {
        Self::Tools(error.into())
    }
}

#[cfg(feature = "mcp")]
impl From<crate::hooks::HookFilesError> for Error {
    fn from(error: crate::hooks::HookFilesError) -> Self {
        Self::Hooks(error.into())
    }
}

#[cfg(feature = "registry")]
impl From<meerkat_registry::Error> for Error {
    fn from(error: meerkat_registry::Error) -> Self {
        Self::Tools(error.into())
    }
}

/// Returns the kind of a failed run.
const fn failure_kind(failure: &Failure) -> ErrorKind {
    match failure.cause {
        TerminalCause::HookDenied => ErrorKind::HookDenied,
        TerminalCause::BudgetExhausted => ErrorKind::BudgetExhausted,
        _ => ErrorKind::AgentError,
    }
}

/// A run that ended without an answer. The session can be resumed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("the run ended without an answer: {reason}{}", note(last_failure.as_deref()))]
pub struct Stopped {
    /// Session id.
    pub session_id: SessionId,
    /// Why it ended.
    pub reason: StopReason,
    /// The text that the model had written.
    pub text: String,
    /// Error of the last model call, if the run ended before a retry.
    pub last_failure: Option<String>,
}

fn note(last_failure: Option<&str>) -> String {
    last_failure.map(|failure| format!("; the last model call failed: {failure}")).unwrap_or_default()
}

/// Reason a run ended without an answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StopReason {
    /// A limit was reached.
    #[error("{}", if *.0 == TerminalCause::TurnLimitReached { "it reached `agent.max_turns`" } else { "its budget is exhausted" })]
    Limit(TerminalCause),
    /// Calls wait for their results or for approval.
    #[error("{} calls wait for results, and {} for approval", calls.len(), approvals.len())]
    Pending {
        /// The calls for the caller to run.
        calls: Vec<ToolCall>,
        /// The calls for the caller to approve or deny.
        approvals: Vec<ApprovalRequest>,
    },
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
    /// Returns an error about invalid arguments.
    pub(crate) fn arguments(message: impl Into<String>) -> Self {
        Self::Request(RequestError::Arguments(message.into()))
    }

    /// Returns the kind of the error, which determines its code.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::InSession { source, .. } => source.kind(),
            Self::NotPersisted { source, .. } => source.kind(),
            Self::Failed { failure, .. } | Self::Rejected(failure) => failure_kind(failure),
            Self::Id(_)
            | Self::InvalidInput(_)
            | Self::Schema(_)
            | Self::SchemaRules(_)
            | Self::UnknownOperation(_) => ErrorKind::InvalidParams,
            Self::TooManySessions { .. } => ErrorKind::TooManySessions,
            Self::ShuttingDown => ErrorKind::ShuttingDown,
            Self::NoStructuredOutput(_) => ErrorKind::AgentError,
            Self::Stopped(stopped) => match stopped.reason {
                StopReason::Limit(_) => ErrorKind::BudgetExhausted,
                StopReason::Pending { .. } => ErrorKind::SessionUnsupported,
            },
            Self::Cancelled { .. } | Self::RequestCancelled => ErrorKind::RequestCancelled,
            other => other.layer().map_or(ErrorKind::Internal, Coded::kind),
        }
    }

    /// Returns the error of a layer.
    fn layer(&self) -> Option<&dyn Coded> {
        Some(match self {
            Self::Request(error) => error,
            Self::Record(error) => error,
            Self::Config(error) => error,
            Self::Models(error) => error,
            Self::Stream(error) => error,
            Self::Tools(error) => error,
            Self::Hooks(error) => error,
            _ => return None,
        })
    }

    /// Returns the session that the error is about, if a run or the request named one.
    #[must_use]
    pub fn session(&self) -> Option<SessionId> {
        match self {
            Self::InSession { id, .. } => Some(*id),
            Self::Failed { session, .. }
            | Self::Cancelled { session }
            | Self::NotPersisted { session, .. }
            | Self::RunCrashed { session, .. } => Some(session.id),
            Self::Stopped(stopped) => Some(stopped.session_id),
            _ => None,
        }
    }

    /// Returns machine-readable details, if there are any.
    #[must_use]
    pub fn data(&self) -> Option<Value> {
        Coded::data(self)
    }

    /// Returns a hint about what to do next, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Coded::hint(self)
    }

    /// Returns the error as every surface shows it.
    #[must_use]
    pub fn body(&self) -> ErrorBody {
        Coded::body(self)
    }
}

impl Coded for Error {
    fn kind(&self) -> ErrorKind {
        Self::kind(self)
    }

    fn data(&self) -> Option<Value> {
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
            Self::Stopped(stopped) => Some(json!({ "session_id": stopped.session_id })),
            Self::TooManySessions { limit } => Some(json!({ "type": "limit_reached", "limit": limit })),
            Self::InSession { id, reference, source } => {
                let mut data = source.data().unwrap_or_else(|| json!({}));
                if data.get("session_id").is_none() {
                    data["session_id"] = json!(id);
                    data["session_ref"] = json!(reference);
                }
                Some(data)
            }
            other => other.layer()?.data(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::InSession { source, .. } => source.hint(),
            Self::NotPersisted { source, .. } => source.hint(),
            other => other.layer()?.hint(),
        }
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
