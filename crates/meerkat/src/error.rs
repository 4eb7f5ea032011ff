//! What can go wrong, in the words of the facade.

use meerkat_contracts::{ErrorBody, ImageEnd};
use meerkat_core::run::{Failure, OpeningError};
use meerkat_core::{BlobId, ErrorKind, IdError, ModelError, SchemaError, SessionId};
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
    /// Something is not in this build.
    #[error("{what} is not available in this build (feature `{feature}`)")]
    NotCompiled {
        /// What was asked for.
        what: &'static str,
        /// The cargo feature that would have it.
        feature: &'static str,
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
    #[error("no event stream `{0}` is open: it was closed, or not read for half an hour; open another")]
    UnknownStream(uuid::Uuid),
    /// There is no room for another event stream.
    #[error("{limit} event streams are open and there is no room for more; close one first")]
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
    /// There is no picture.
    #[error("no picture was made: {source}")]
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
    #[error("the run was interrupted; the session can be resumed")]
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
    #[error("the stored {what} cannot be read; it may come from a newer version: {source}")]
    Record {
        /// What it is.
        what: &'static str,
        /// What is wrong with it.
        source: serde_json::Error,
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

/// A session and whether the failed request created it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRef {
    /// The session.
    pub id: SessionId,
    /// The session with its realm.
    pub reference: String,
    /// Whether the failed request created it.
    pub created: bool,
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
            | Self::BlobNotFound(_)
            | Self::UnknownStream(_) => ErrorKind::InvalidParams,
            Self::OfSession { source, .. } => source.kind(),
            Self::NotCompiled { .. } | Self::TooManyStreams { .. } | Self::TooManySessions { .. } => {
                ErrorKind::CapabilityUnavailable
            }
            Self::Model { .. } | Self::Image { .. } => ErrorKind::ProviderError,
            Self::Failed { .. } | Self::NoStructuredOutput(_) => ErrorKind::AgentError,
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
    fn data(&self) -> Value {
        json!({
            "session_id": self.id,
            "session_ref": self.reference,
            "session_created": self.created,
            "resumable": true,
        })
    }
}
