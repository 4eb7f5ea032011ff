//! Errors of hooks.

use meerkat_core::ErrorKind;

use crate::coded::Coded;

/// Error of the hooks of a run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HooksError {
    /// Invalid hooks in a request.
    #[error("`hooks_override`: {0}")]
    Invalid(String),
    /// Hooks of a file cannot be loaded.
    #[cfg(feature = "mcp")]
    #[error("cannot load hooks, so nothing was run: {0}")]
    Files(#[from] super::HookFilesError),
    /// Hooks that only the realm's owner can set for a run.
    #[error(
        "`hooks_override`: {what} is restricted to the owner of the realm; on the command line, the owner can set \
         `hooks.client_overrides`"
    )]
    Protected {
        /// Description of the request.
        what: String,
    },
    /// A bug in Meerkat: a task crashed.
    #[error("internal error: {0}")]
    Crashed(#[from] tokio::task::JoinError),
}

impl Coded for HooksError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Invalid(_) | Self::Protected { .. } => ErrorKind::InvalidParams,
            #[cfg(feature = "mcp")]
            Self::Files(_) => ErrorKind::InvalidParams,
            Self::Crashed(_) => ErrorKind::Internal,
        }
    }
}
