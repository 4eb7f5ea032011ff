//! Tool errors, as reported to the model.

use std::error::Error as StdError;
use std::io;

use meerkat_core::{BlobId, IdError, ToolFailure};

use crate::storage::StorageError;

/// Error of one group of tools.
pub(crate) trait ToolError: StdError + Send + Sync + 'static {
    /// Returns the kind of failure.
    fn failure(&self) -> ToolFailure {
        ToolFailure::ExecutionFailed
    }
}

impl ToolError for StorageError {}

/// Reason a tool failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A reason of one group of tools.
    #[error("{0}")]
    Tool(Box<dyn ToolError>),
    /// The path is empty or contains a NUL character.
    #[error("a path must not be empty or contain a NUL character")]
    EmptyPath,
    /// The path leads out of the workspace.
    #[error("`{0}` is outside the workspace; use a path inside it")]
    Outside(String),
    /// The path names the workspace itself.
    #[error("`{0}` is the workspace itself; name a file in it")]
    WholeWorkspace(String),
    /// The path may contain secrets.
    #[error("`{0}` may contain secrets; the realm's owner can allow access with `tools.secrets`")]
    Secret(String),
    /// A file operation failed.
    #[error("`{path}`: {what}")]
    File {
        /// The file.
        path: String,
        /// The operation that failed.
        what: &'static str,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The tool cannot use the file's content.
    #[error("`{path}` {why}")]
    Content {
        /// The file.
        path: String,
        /// The problem, and what to do instead.
        why: &'static str,
    },
    /// An argument is invalid.
    #[error("`{argument}`: {why}")]
    Argument {
        /// The argument.
        argument: &'static str,
        /// The problem.
        why: String,
    },
    /// The blob does not exist.
    #[error("no blob `{0}`")]
    NoBlob(BlobId),
    /// The blob id is invalid.
    #[error(transparent)]
    BlobId(#[from] IdError),
    /// The result cannot be encoded.
    #[error("cannot encode the result as JSON")]
    Encode(#[source] serde_json::Error),
    /// The operation stopped before it was done.
    #[error("the operation was interrupted")]
    Interrupted,
}

impl<E: ToolError> From<E> for Error {
    fn from(error: E) -> Self {
        Self::Tool(Box::new(error))
    }
}

impl Error {
    /// Returns the kind of failure.
    #[must_use]
    pub(crate) fn failure(&self) -> ToolFailure {
        match self {
            Self::Tool(error) => error.failure(),
            Self::Outside(_) | Self::Secret(_) => ToolFailure::AccessDenied,
            Self::EmptyPath | Self::WholeWorkspace(_) | Self::Argument { .. } | Self::BlobId(_) => {
                ToolFailure::InvalidArguments
            }
            Self::File { .. }
            | Self::Content { .. }
            | Self::NoBlob(_)
            | Self::Encode(_)
            | Self::Interrupted => ToolFailure::ExecutionFailed,
        }
    }

    /// Returns the message with all its causes.
    pub(crate) fn error_chain(&self) -> String {
        let first: &dyn StdError = if let Self::Tool(error) = self { &**error } else { self };
        let (mut text, mut source) = (first.to_string(), first.source());
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        text
    }
}
