//! Errors of requests that cannot be served as they are, in any layer.

use meerkat_core::ErrorKind;
use serde_json::{Value, json};

use crate::coded::Coded;

/// Error of a request that cannot be served as it is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The arguments are invalid.
    #[error("{0}")]
    Arguments(String),
    /// An anonymous client, which may be any user of this machine, requested something that needs a token.
    #[error("{what} needs a token; restart this server without `--no-token`, or {instead}")]
    TokenNeeded {
        /// Description of the request.
        what: String,
        /// The alternative to suggest.
        instead: &'static str,
    },
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
}

impl Coded for RequestError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Arguments(_) => ErrorKind::InvalidParams,
            Self::TokenNeeded { .. } | Self::NotCompiled { .. } | Self::Disabled { .. } => {
                ErrorKind::CapabilityUnavailable
            }
        }
    }

    fn data(&self) -> Option<Value> {
        matches!(self, Self::TokenNeeded { .. }).then(|| json!({ "type": "token_needed" }))
    }
}
