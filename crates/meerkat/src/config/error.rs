//! Errors of a config.

use meerkat_core::{ErrorKind, excerpt};
use serde_json::{Value, json};

use crate::coded::Coded;
use crate::records::RecordError;
use crate::request_error::RequestError;

/// Error of a config.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The config cannot be read or stored.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The request cannot be served as it is.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// A config document is invalid.
    #[error("invalid config: {0}")]
    Invalid(String),
    /// A config key that only the realm's owner can change.
    #[error("`{}` can only be changed by the realm's owner, on the command line", excerpt(key))]
    Protected {
        /// The config key.
        key: String,
    },
}

impl From<meerkat_store::Error> for ConfigError {
    fn from(error: meerkat_store::Error) -> Self {
        Self::Record(error.into())
    }
}

impl Coded for ConfigError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Record(error) => error.kind(),
            Self::Request(error) => error.kind(),
            Self::Invalid(_) | Self::Protected { .. } => ErrorKind::InvalidParams,
        }
    }

    fn data(&self) -> Option<Value> {
        match self {
            Self::Record(error) => error.data(),
            Self::Request(error) => error.data(),
            Self::Protected { key } => Some(json!({ "type": "config_protected", "key": excerpt(key) })),
            Self::Invalid(_) => None,
        }
    }

    fn hint(&self) -> Option<String> {
        if let Self::Record(error) = self { error.hint() } else { None }
    }
}
