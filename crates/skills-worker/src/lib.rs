//! The registry as a worker of a real iii engine.
//!
//! The functions and the rules are those of `meerkat-registry`; the engine carries calls and keeps the values. Its
//! config and manifest are read and written here, and with the feature `engine` there is the program that connects.

mod config;
#[cfg(feature = "engine")]
mod engine;
mod manifest;

pub use config::{ConfigError, read};
#[cfg(feature = "engine")]
pub use engine::Worker;
pub use manifest::{manifest, target};

/// Where an engine is, unless told otherwise.
pub const DEFAULT_URL: &str = "ws://127.0.0.1:49134";
