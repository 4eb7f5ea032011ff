//! Memory: what compaction takes out of an agent's sight stays findable.
//!
//! Here is what is worth remembering of a message, how a question becomes words to look for, and the tool
//! `memory_search`. The index is the store's.

mod text;
mod tool;

pub use text::{memories, words};
pub use tool::{Memory, Scope};
