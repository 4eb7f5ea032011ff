//! The registry over a bus in memory: every rule, text and shape that programs rely on.

mod api;
mod notices;
mod prompts;
mod skills;
mod support;
