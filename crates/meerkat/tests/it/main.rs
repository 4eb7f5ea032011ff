//! Behavior of the facade, for embedders and every surface, in each build profile.

#[cfg(test)]
mod anonymous;
#[cfg(test)]
mod approvals;
#[cfg(test)]
mod behavior;
#[cfg(test)]
mod builtins;
#[cfg(test)]
#[cfg(feature = "session-compaction")]
mod compaction;
#[cfg(test)]
mod config;
#[cfg(test)]
mod embedding;
#[cfg(test)]
mod events;
#[cfg(test)]
mod examples;
#[cfg(test)]
mod generated;
#[cfg(test)]
#[cfg(all(unix, feature = "session-store"))]
mod health;
#[cfg(test)]
mod help;
#[cfg(test)]
#[cfg(all(unix, feature = "mcp", feature = "openai"))]
mod hook_failures;
#[cfg(test)]
#[cfg(all(unix, feature = "mcp", feature = "openai"))]
mod hooks;
#[cfg(test)]
#[cfg(all(feature = "anthropic", feature = "openai", feature = "gemini"))]
mod hosted;
#[cfg(test)]
#[cfg(feature = "registry")]
mod hub;
#[cfg(test)]
mod image_input;
#[cfg(test)]
#[cfg(all(feature = "anthropic", feature = "openai", feature = "gemini"))]
mod images;
#[cfg(test)]
#[cfg(feature = "session-store")]
mod kill;
#[cfg(test)]
mod limits;
#[cfg(test)]
#[cfg(all(feature = "memory-store-session", feature = "session-compaction", feature = "session-store"))]
mod memory;
#[cfg(test)]
mod ops;
#[cfg(test)]
#[cfg(feature = "registry")]
mod registry;
#[cfg(test)]
mod run_options;
#[cfg(test)]
mod runs;
#[cfg(test)]
mod secrets;
#[cfg(test)]
#[cfg(feature = "mcp")]
mod servers;
#[cfg(test)]
mod sessions;
#[cfg(test)]
#[cfg(feature = "session-store")]
mod shared_realm;
#[cfg(test)]
#[cfg(feature = "skills")]
mod skills;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod structured;
#[cfg(test)]
mod tools;
#[cfg(test)]
mod truncation;
#[cfg(test)]
mod world;
