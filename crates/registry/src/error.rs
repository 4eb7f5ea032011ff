//! Errors of the registry. Callers of the functions depend on the exact messages.

use meerkat_core::excerpt;

use crate::{BusError, Invalid, UriError};

/// Error of a registry function.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The input does not match the function's input schema.
    #[error("{0}")]
    Input(serde_json::Error),
    /// The input is invalid.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The URI is invalid.
    #[error(transparent)]
    Uri(#[from] UriError),
    /// No skill has this id.
    #[error("Skill not found: {}", excerpt(.0))]
    SkillNotFound(String),
    /// No prompt has this name.
    #[error("Prompt not found: {}", excerpt(.0))]
    PromptNotFound(String),
    /// An internal function of the bus was requested as a section of a skill.
    #[error("Function '{}' is in an internal namespace and cannot back a skill resource", excerpt(.0))]
    ReservedSection(String),
    /// An internal function of the bus was registered as a prompt handler.
    #[error("Prompt handler '{}' is in an internal namespace and cannot back a prompt", excerpt(.0))]
    ReservedHandler(String),
    /// The id of a function contains whitespace.
    #[error("Function id \"{}\" contains whitespace", excerpt(.0))]
    Blank(String),
    /// The function behind a section or prompt could not be called, or failed.
    #[error("trigger {}: {source}", excerpt(function))]
    Trigger {
        /// Id of the function.
        function: String,
        /// Error of the call.
        source: BusError,
    },
    /// The prompt handler's response contains no messages.
    #[error(
        "prompt handler returned unsupported shape; expected string, {{ content }}, or {{ messages: [...] }}"
    )]
    Shape,
    /// Another worker registered the entry, and the caller may not change other workers' entries.
    #[error("{what} '{}' was registered by another worker", excerpt(name))]
    NotOwner {
        /// Kind of the entry.
        what: &'static str,
        /// Id or name of the entry.
        name: String,
    },
    /// The caller may not use the function.
    #[error("function '{}' not allowed", excerpt(.0))]
    NotAllowed(String),
    /// The stored value is not an entry.
    #[error("decode stored {what} {}: {source}", excerpt(name))]
    Stored {
        /// Either `skill` or `prompt`.
        what: &'static str,
        /// Id or name of the entry.
        name: String,
        /// Error decoding the value.
        source: serde_json::Error,
    },
    /// The storage of registered content failed.
    #[error(transparent)]
    State(#[from] BusError),
    /// The registry has no such function.
    #[error("`{}` is not a function of the registry", excerpt(.0))]
    UnknownFunction(String),
}

/// Category of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The requested entry or function does not exist.
    NotFound,
    /// The request is invalid or not allowed.
    Refused,
    /// The operation failed.
    Failed,
}

impl Error {
    /// Returns the category of the error.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Uri(_) | Self::SkillNotFound(_) | Self::PromptNotFound(_) | Self::UnknownFunction(_) => {
                Kind::NotFound
            }
            Self::Trigger { source, .. } if source.is_unknown_function() => Kind::NotFound,
            Self::Input(_)
            | Self::Invalid(_)
            | Self::ReservedSection(_)
            | Self::ReservedHandler(_)
            | Self::NotOwner { .. }
            | Self::NotAllowed(_)
            | Self::Blank(_) => Kind::Refused,
            Self::Trigger { .. } | Self::Shape | Self::Stored { .. } | Self::State(_) => Kind::Failed,
        }
    }
}
