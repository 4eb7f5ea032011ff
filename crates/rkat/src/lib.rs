//! Binaries of Meerkat: `rkat`, the operations of the facade for users, and `rkat-mcp`, the same for MCP clients.
//!
//! Results of `rkat` go to stdout; everything else goes to stderr. Exit codes: 0 success, 1 failure, 2 budget exhausted
//! or invalid command line, 130 interrupted.

mod args;
mod commands;
mod compose;
mod env;
mod error;
mod locate;
mod mcp_server;
mod memory;
mod out;
mod parent;
mod render;
mod scope;
mod servers;
mod stdin;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{CommandFactory as _, Parser as _};

pub use env::VARIABLES;
pub use mcp_server::main as serve_mcp;
use meerkat_telemetry::Telemetry;
pub use meerkat_telemetry::VARIABLES as TELEMETRY_VARIABLES;

use crate::args::{Cli, Command, SkillCommand};
use crate::compose::DefaultLog;
use crate::scope::Surface;

/// Time limit for flushing traces: an unavailable collector must not delay exit.
const TRACE_FLUSH_TIMEOUT: Duration = Duration::from_secs(3);
/// Time limit for closing the database, and for cancelled tasks to stop.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs `rkat`.
#[must_use]
pub fn main() -> ExitCode {
    if let Some(code) = meerkat::supervise(std::env::args_os()) {
        return code;
    }
    let cli = Cli::parse_from(args::normalize(std::env::args_os().collect()));
    let mut threads = match cli.command {
        // This command only reads files, and should use little memory.
        Command::Skill(SkillCommand::Serve) => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = match threads.worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            out::stderr_line(&format!("error: cannot start threads: {error}"));
            return ExitCode::FAILURE;
        }
    };
    out::register_secrets();
    let telemetry = telemetry(&cli.command);
    let (format, state_root) = (cli.command.error_format(), cli.scope.state_root.clone());
    let code = match runtime.block_on(commands::execute(cli)) {
        Ok(code) => code,
        Err(error) => error.report(format, state_root.as_deref()),
    };
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    if let Some(dropped) = telemetry.finish(TRACE_FLUSH_TIMEOUT) {
        out::warn(dropped);
    }
    out::flush_queue();
    code
}

/// Starts the log and traces. A server must not wait for a reader of its log.
fn telemetry(command: &Command) -> Telemetry {
    match command {
        Command::Serve(args) => compose::telemetry(
            Surface::Rkat,
            Arc::new(out::queue_log_line),
            DefaultLog::Warnings,
            args.log_format,
        ),
        Command::Hub(_) => {
            compose::telemetry(Surface::Rkat, Arc::new(out::queue_log_line), DefaultLog::Warnings, None)
        }
        _ => compose::telemetry(Surface::Rkat, Arc::new(out::log_line), DefaultLog::Off, None),
    }
}

/// Returns the command-line grammar, for the reference page and shell completions.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

/// Examples of the documentation, compiled and run with the tests.
#[cfg(doctest)]
mod examples {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/embedding.md")]
    struct Embedding;
}
