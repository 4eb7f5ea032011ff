//! SKILL.md: frontmatter between two lines of three hyphens, and a Markdown body.
//!
//! Real files break the rules in many ways, so parsing is lenient: a byte order mark, other line endings, unquoted
//! colons, and unknown keys are all accepted. Frontmatter that is not valid YAML is read line by line. Only a file
//! without a name or a description is rejected.

mod frontmatter;
mod lines;
mod yaml;

pub use frontmatter::{Document, ParseError};
pub(crate) use yaml::{Field, Quirk, Yaml, YamlError, read as read_yaml};
