//! The registry as a worker of an iii engine.
//!
//! `meerkat-registry` implements the functions and rules; the engine routes calls and stores values. This crate reads
//! the config and writes the manifest; the feature `engine` adds the binary that connects.

mod config;
#[cfg(feature = "engine")]
mod engine;
mod manifest;

pub use config::{ConfigError, read};
#[cfg(feature = "engine")]
pub use engine::Worker;
pub use manifest::{manifest, target};

/// Default URL of the engine.
pub const DEFAULT_URL: &str = "ws://127.0.0.1:49134";
