//! Validation of registrations. The first violated rule is reported.

use std::collections::HashSet;

use meerkat_core::excerpt;

use crate::PromptArgument;
use crate::input::{RegisterPromptInput, RegisterSkillInput};

/// Maximum length of an id or name, in bytes.
pub const MAX_ID_BYTES: usize = 64;
/// Maximum length of a skill's text, in bytes.
pub const MAX_SKILL_BYTES: usize = 256 * 1024;

/// Reason why a registration is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// A required field is empty.
    #[error("{0} must be non-empty")]
    Empty(&'static str),
    /// An id or a name is too long.
    #[error("{field} too long ({bytes} chars; max {MAX_ID_BYTES})")]
    TooLong {
        /// The field.
        field: &'static str,
        /// Actual length in bytes.
        bytes: usize,
    },
    /// An id or a name contains invalid characters.
    #[error("{field} may only contain lowercase ASCII letters, digits, '-' and '_': {value:?}")]
    Characters {
        /// The field.
        field: &'static str,
        /// The invalid value.
        value: String,
    },
    /// The text of a skill is too long.
    #[error("skill body too large ({0} bytes; max {MAX_SKILL_BYTES})")]
    TooLarge(usize),
    /// Two arguments of a prompt have the same name.
    #[error("duplicate argument name: {}", excerpt(.0))]
    DuplicateArgument(String),
}

/// Checks an id or a name.
pub(crate) fn name(field: &'static str, value: &str) -> Result<(), Invalid> {
    if value.is_empty() {
        return Err(Invalid::Empty(field));
    }
    if value.len() > MAX_ID_BYTES {
        return Err(Invalid::TooLong { field, bytes: value.len() });
    }
    let allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
    if !value.bytes().all(allowed) {
        return Err(Invalid::Characters { field, value: value.to_owned() });
    }
    Ok(())
}

pub(crate) fn skill(input: &RegisterSkillInput) -> Result<(), Invalid> {
    name("id", &input.id)?;
    match input.skill.len() {
        0 => Err(Invalid::Empty("skill")),
        bytes if bytes > MAX_SKILL_BYTES => Err(Invalid::TooLarge(bytes)),
        _ => Ok(()),
    }
}

pub(crate) fn prompt(input: &RegisterPromptInput) -> Result<(), Invalid> {
    name("name", &input.name)?;
    not_blank("description", &input.description)?;
    not_blank("function_id", &input.function_id)?;
    arguments(&input.arguments)
}

fn not_blank(field: &'static str, value: &str) -> Result<(), Invalid> {
    if value.trim().is_empty() { Err(Invalid::Empty(field)) } else { Ok(()) }
}

fn arguments(arguments: &[PromptArgument]) -> Result<(), Invalid> {
    let mut seen = HashSet::new();
    for argument in arguments {
        not_blank("argument name", &argument.name)?;
        if !seen.insert(&argument.name) {
            return Err(Invalid::DuplicateArgument(argument.name.clone()));
        }
    }
    Ok(())
}
