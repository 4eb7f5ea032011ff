//! Shared helpers for Meerkat's own tests.
//!
//! Everything here may panic: it is only for tests, and a panic is how a test reports a failure.

#![expect(
    clippy::panic,
    clippy::expect_used,
    clippy::needless_pass_by_value,
    clippy::new_ret_no_self,
    reason = "this crate is for tests, which should read well"
)]

mod clock;
mod disk;
mod eventually;
mod forks;
mod generate;
#[cfg(target_os = "linux")]
mod kernel;
mod mcp;
mod model;
mod recorder;
mod redact;
mod scratch;
mod server;
mod shell_server;
mod tools;
pub mod web;

pub use clock::TestClock;
pub use disk::SmallDisk;
pub use eventually::eventually;
pub use forks::{ForkingServer, assert_no_process_with_mark, mark, processes_with_mark};
pub use generate::Generator;
#[cfg(target_os = "linux")]
pub use kernel::{MissingFeature, with_restricted_kernel};
pub use mcp::{McpClient, ToolReply};
pub use model::{RecordedRequest, Script, ScriptedModel, message_line};
pub use recorder::Recorder;
pub use redact::redact;
pub use scratch::{Scratch, checkpoint};
pub use server::{RecordedCall, Server};
pub use shell_server::ShellServer;
pub use tools::{FnTool, Tools};
