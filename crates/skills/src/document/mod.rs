//! SKILL.md: a head between two lines of three hyphens, and a body of Markdown.
//!
//! Real files break the rules in many ways, so reading is lenient: a byte order mark, other line ends, unquoted
//! colons and unknown keys are all taken. A head that is no YAML at all is read line by line. Only a file that
//! does not say what it is called and what it is for is refused.

mod head;
mod lines;
mod yaml;

pub use head::{Document, Fault};
pub(crate) use yaml::{Field, Quirk, Refusal, Yaml, read as read_yaml};
