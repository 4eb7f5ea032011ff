//! Tool errors, as reported to the model.

use std::io;

use meerkat_core::{BlobId, IdError, ToolFailure};

use crate::files::PathError;
use crate::patch::PatchError;
use crate::shell::ShellError;
use crate::storage::StorageError;
use crate::tasks::TaskError;

/// Reason a tool failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The path is invalid.
    #[error(transparent)]
    Path(#[from] PathError),
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
    /// The patch does not apply.
    #[error(transparent)]
    Patch(#[from] PatchError),
    /// The task is missing or invalid.
    #[error(transparent)]
    Task(#[from] TaskError),
    /// The blob does not exist.
    #[error("no blob `{0}`")]
    NoBlob(BlobId),
    /// The blob id is invalid.
    #[error(transparent)]
    BlobId(#[from] IdError),
    /// The command did not run, or the job does not exist.
    #[error(transparent)]
    Shell(#[from] ShellError),
    /// The realm's store failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The result cannot be encoded.
    #[error("cannot encode the result as JSON")]
    Encode(#[source] serde_json::Error),
    /// The operation stopped before it was done.
    #[error("the operation was interrupted")]
    Interrupted,
}

impl Error {
    pub(crate) fn file(path: impl Into<String>, what: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, what, source }
    }

    /// Returns the kind of failure.
    #[must_use]
    pub(crate) const fn failure(&self) -> ToolFailure {
        match self {
            Self::Path(PathError::Outside(_) | PathError::Secret(_)) => ToolFailure::AccessDenied,
            Self::Path(_) | Self::Argument { .. } | Self::BlobId(_) => ToolFailure::InvalidArguments,
            Self::Shell(error) => error.failure(),
            Self::File { .. }
            | Self::Content { .. }
            | Self::Patch(_)
            | Self::Task(_)
            | Self::NoBlob(_)
            | Self::Storage(_)
            | Self::Encode(_)
            | Self::Interrupted => ToolFailure::ExecutionFailed,
        }
    }

    /// Returns the message with all its causes.
    pub(crate) fn error_chain(&self) -> String {
        let mut text = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        text
    }
}
