//! Meerkat as an MCP server.
//!
//! The tools are generated from the operations of [`meerkat::operations`]; nothing is declared twice. To build your own
//! host, use [`tools_list`] and [`handle_tools_call`]; `rkat-mcp` is a [`Server`] over [`Stdio`] or [`http`]. The protocol
//! itself is implemented in [`protocol`].

pub mod http;
pub mod lifetime;
mod log;
pub mod protocol;
mod realm;
mod server;
mod signals;
mod skills;
mod stdio;

pub use realm::{
    LazyRuntime, RealmService, UnknownTool, handle_tools_call, handle_tools_call_with, tools_list,
};
pub use server::Server;
pub use signals::shutdown_signal;
pub use skills::serve_skills;
pub use stdio::Stdio;
