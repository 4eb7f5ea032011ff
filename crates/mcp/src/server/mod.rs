//! One server: its state, actor, connection, and tools.

mod actor;
mod link;
mod state;
mod tool;

pub(crate) use actor::{ActorCommand, MAX_CONNECTING, spawn_actor};
pub(crate) use link::{CallError, Link};
pub use state::{ServerState, ServerView, ToolName};
pub(crate) use state::{SharedServer, ToolEntry};
pub(crate) use tool::{McpTool, failure, unavailable};
