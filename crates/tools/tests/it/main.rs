//! The tools as a run calls them.

mod definitions;
mod endings;
mod escapes;
mod files;
mod jobs;
mod patches;
mod shell;
mod support;
mod tasks;
