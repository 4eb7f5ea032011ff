//! Benchmarks: `cargo xtask bench [NAME] [--smoke]`.
//!
//! Machines are noisy, so nothing here is a time on its own: each number is a ratio to a floor or a peer that
//! was measured in the same run, in turns.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark prints what it found")]

mod measure;
mod spine;

use std::process::ExitCode;

use measure::Effort;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let effort = if arguments.iter().any(|word| word == "--smoke") { Effort::Smoke } else { Effort::Full };
    let names: Vec<_> = arguments.iter().filter(|word| !word.starts_with("--")).map(String::as_str).collect();
    let wanted = |name: &str| names.is_empty() || names.contains(&name);
    let outcome = if wanted("spine") { spine::run(effort) } else { Err("there is only `spine`".into()) };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
