//! Why a tool failed, as its model is told.

use std::io;

use meerkat_core::{BlobId, IdError, ToolFailure};

use crate::files::PathError;
use crate::patch::PatchError;
use crate::shelf::ShelfError;
use crate::shell::ShellError;
use crate::tasks::TaskError;

/// Why a tool failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The path cannot be used.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The system refused.
    #[error("`{path}`: {what}")]
    File {
        /// The file.
        path: String,
        /// What was to be done.
        what: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// What the file holds is of no use to the tool.
    #[error("`{path}` {why}")]
    Content {
        /// The file.
        path: String,
        /// What is wrong with it, and what to do instead.
        why: &'static str,
    },
    /// An argument makes no sense.
    #[error("`{argument}`: {why}")]
    Argument {
        /// The argument.
        argument: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// The patch does not fit.
    #[error(transparent)]
    Patch(#[from] PatchError),
    /// The task cannot be had or made.
    #[error(transparent)]
    Task(#[from] TaskError),
    /// There is no such blob.
    #[error("there is no blob `{0}`")]
    NoBlob(BlobId),
    /// That names no blob.
    #[error(transparent)]
    BlobId(#[from] IdError),
    /// The command was not run, or there is no such job.
    #[error(transparent)]
    Shell(#[from] ShellError),
    /// The realm's store failed.
    #[error(transparent)]
    Shelf(#[from] ShelfError),
    /// What came out cannot be written down.
    #[error("the result cannot be written as JSON")]
    Encode(#[source] serde_json::Error),
    /// The work ended before it was done.
    #[error("the work broke off")]
    BrokeOff,
}

impl Error {
    pub(crate) fn file(path: impl Into<String>, what: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, what, source }
    }

    /// Says what kind of failure it is.
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
            | Self::Shelf(_)
            | Self::Encode(_)
            | Self::BrokeOff => ToolFailure::ExecutionFailed,
        }
    }

    /// Says it with everything that caused it.
    pub(crate) fn said(&self) -> String {
        let mut text = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        text
    }
}
