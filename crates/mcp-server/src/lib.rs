//! Meerkat as an MCP server.
//!
//! The tools are the operations of [`meerkat::ops`], projected: nothing is declared here twice. A host of your
//! own uses [`tools_list`] and [`handle_tools_call`]; the bundled `rkat-mcp` is [`Server`] over [`Stdio`].

mod host;
mod server;
mod stdio;
mod stream;
mod tools;

pub use host::Host;
pub use server::{ServeError, Server, serve};
pub use stdio::Stdio;
pub use tools::{UnknownTool, handle_tools_call, handle_tools_call_with, tools_list};
