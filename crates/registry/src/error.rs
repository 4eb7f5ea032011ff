//! What can go wrong, in the words that callers of the functions know.

use crate::{BusError, Invalid, UriError};

/// Why a function of the registry failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The input does not have the shape of the function's input.
    #[error("{0}")]
    Input(serde_json::Error),
    /// Something in the input is not allowed.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The URI is none of ours.
    #[error(transparent)]
    Uri(#[from] UriError),
    /// No skill has that id.
    #[error("Skill not found: {0}")]
    SkillNotFound(String),
    /// No prompt has that name.
    #[error("Prompt not found: {0}")]
    PromptNotFound(String),
    /// A function that belongs to the bus itself was to make a section of a skill.
    #[error("Function '{0}' is in an internal namespace and cannot back a skill resource")]
    ReservedSection(String),
    /// A function that belongs to the bus itself was to answer for a prompt.
    #[error("Prompt handler '{0}' is in an internal namespace and cannot back a prompt")]
    ReservedHandler(String),
    /// The id of a function has blanks in it.
    #[error("Function id {0:?} contains whitespace")]
    Blank(String),
    /// The function behind a section or a prompt could not be called, or failed.
    #[error("trigger {function}: {source}")]
    Trigger {
        /// Its id.
        function: String,
        /// What happened.
        source: BusError,
    },
    /// The function behind a prompt answered with something else than messages.
    #[error(
        "prompt handler returned unsupported shape; expected string, {{ content }}, or {{ messages: [...] }}"
    )]
    Shape,
    /// Another worker registered it, and the caller may not change what others registered.
    #[error("{what} '{name}' was registered by another worker")]
    NotOwner {
        /// What it is.
        what: &'static str,
        /// Its id or name.
        name: String,
    },
    /// The caller may not have the function called.
    #[error("function '{0}' not allowed")]
    NotAllowed(String),
    /// What is stored is no skill.
    #[error("decode stored skill {id}: {source}")]
    StoredSkill {
        /// Its id.
        id: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// What is stored is no prompt.
    #[error("decode stored prompt {name}: {source}")]
    StoredPrompt {
        /// Its name.
        name: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// What keeps the registered content failed.
    #[error(transparent)]
    State(#[from] BusError),
    /// The registry has no such function.
    #[error("`{0}` is no function of the registry")]
    UnknownFunction(String),
}

/// Whose matter an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// What was asked for is not there.
    NotFound,
    /// The caller asked for something that makes no sense or is not allowed.
    Refused,
    /// Something that should have worked did not.
    Failed,
}

impl Error {
    /// Says whose matter it is.
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
            Self::Trigger { .. }
            | Self::Shape
            | Self::StoredSkill { .. }
            | Self::StoredPrompt { .. }
            | Self::State(_) => Kind::Failed,
        }
    }
}
