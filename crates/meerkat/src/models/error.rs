//! Errors of models.

use meerkat_core::{ErrorKind, excerpt};
use serde_json::Value;

use crate::coded::Coded;
use crate::request_error::RequestError;

/// Error of a requested model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelsError {
    /// The requested model cannot be used.
    #[error("cannot use model `{}`: {reason}", excerpt(model))]
    Unusable {
        /// The requested model.
        model: String,
        /// The reason.
        reason: String,
    },
    /// The model's provider is not in this build.
    #[error(transparent)]
    Request(#[from] RequestError),
}

impl Coded for ModelsError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Unusable { .. } => ErrorKind::ProviderError,
            Self::Request(error) => error.kind(),
        }
    }

    fn data(&self) -> Option<Value> {
        match self {
            Self::Unusable { .. } => None,
            Self::Request(error) => error.data(),
        }
    }
}
