//! Benchmarks: `cargo xtask bench [NAME] [--smoke]`.
//!
//! Machines are noisy, so no benchmark reports an absolute time alone: each number is a ratio to a floor or a peer that
//! was measured in the same run, alternately.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark prints what it found")]

mod caller;
mod floor;
mod mcp;
mod mcp_client;
mod measure;
mod memory;
mod providers;
mod registry;
mod sessions;
mod skills;
mod tools;

use std::process::ExitCode;

use measure::{Effort, Failure};

/// A benchmark and its name.
type Bench = (&'static str, fn(Effort) -> Result<(), Failure>);

/// Every benchmark, in the order in which they run.
const BENCHES: [Bench; 8] = [
    ("spine", sessions::run),
    ("mcp", mcp::run),
    ("mcp-client", mcp_client::run),
    ("providers", providers::run),
    ("skills", skills::run),
    ("memory", memory::run),
    ("registry", registry::run),
    ("tools", tools::run),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the named benchmarks, or all; one that misses its target does not stop the others.
fn run(arguments: &[String]) -> Result<(), Failure> {
    let effort = if arguments.iter().any(|word| word == "--smoke") { Effort::Smoke } else { Effort::Full };
    let names: Vec<_> = arguments.iter().filter(|word| !word.starts_with("--")).map(String::as_str).collect();
    if let Some(name) = names.iter().find(|name| BENCHES.iter().all(|(known, _)| known != *name)) {
        let known: Vec<_> = BENCHES.iter().map(|(name, _)| format!("`{name}`")).collect();
        return Err(format!("unknown benchmark `{name}`; expected one of {}", known.join(", ")).into());
    }
    let mut outcome = Ok(());
    for (name, bench) in BENCHES {
        if names.is_empty() || names.contains(&name) {
            let ended = bench(effort);
            outcome = outcome.and(ended);
        }
    }
    outcome
}
