//! Memory: messages removed by compaction stay searchable.
//!
//! This crate extracts text worth remembering from messages, turns a question into search terms, and provides the
//! tool `memory_search`. The index is part of the store.

mod text;
mod tool;

pub use text::{memories, words};
pub use tool::{Memory, Scope};
