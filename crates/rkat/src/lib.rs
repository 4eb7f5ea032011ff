//! The command line of Meerkat: the operations of the facade, for people.
//!
//! stdout carries results only; everything else goes to stderr. Exit codes: 0 done, 1 failed, 2 a budget ran
//! out or the command line is wrong, 130 interrupted.

mod args;
mod commands;
mod env;
mod error;
mod locate;
mod out;
mod render;
mod servers;
mod stdin;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{CommandFactory as _, Parser as _};
use meerkat_telemetry::{LineSink, Settings, Telemetry, TelemetryOptions};

pub use env::VARIABLES;
pub use meerkat_telemetry::VARIABLES as TELEMETRY_VARIABLES;

use crate::args::{Cli, Command, SkillCommand};

/// How long the last traces may take: a collector that is away must not keep anybody waiting.
const LAST_TRACES: Duration = Duration::from_secs(3);
/// How long the database may take to close, and work that no longer matters to notice that it was cancelled.
const LAST_THREADS: Duration = Duration::from_secs(2);

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    if let Some(code) = meerkat::supervise(std::env::args_os()) {
        return code;
    }
    let cli = Cli::parse_from(args::normalize(std::env::args_os().collect()));
    let mut threads = match cli.command {
        // It only reads files, and should be small.
        Command::Skill(SkillCommand::Serve) => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = match threads.worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            out::say(&format!("error: the program cannot start its threads: {error}"));
            return ExitCode::FAILURE;
        }
    };
    env::tell_secrets();
    let telemetry = telemetry();
    let (format, state_root) = (cli.command.error_format(), cli.scope.state_root.clone());
    let code = match runtime.block_on(commands::execute(cli)) {
        Ok(code) => code,
        Err(error) => error.report(format, state_root.as_deref()),
    };
    runtime.shutdown_timeout(LAST_THREADS);
    if let Some(lost) = telemetry.finish(LAST_TRACES) {
        out::say(&format!("warning: {lost}"));
    }
    code
}

/// Starts the log and the traces, as far as the environment asks for them.
fn telemetry() -> Telemetry {
    let Settings { log, otlp, warnings } = env::telemetry();
    warnings.iter().for_each(|warning| out::say(&format!("warning: {warning}")));
    let sink: LineSink = Arc::new(out::say);
    let log = log.map(|filter| (filter, sink));
    Telemetry::start(TelemetryOptions { log, otlp, redactor: out::secrets() })
}

/// Returns the command line's grammar, for the reference page and for completions.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

/// The examples of the documentation, so that they are compiled and run with the tests.
#[cfg(doctest)]
mod examples {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/embedding.md")]
    struct Embedding;
}
