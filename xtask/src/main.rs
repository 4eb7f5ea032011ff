//! Developer tasks, run as `cargo xtask COMMAND`.
//!
//! Each command is one module with a `run` function. A command runs other programs and reports the first one that
//! failed, with its command line; it never changes `RUSTFLAGS`, so that no command forces another to rebuild.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a developer tool talks to its terminal")]

mod bench;
mod check;
mod ci;
mod clients;
mod docs;
mod error;
mod examples;
mod fuzz;
mod graph;
mod link_order;
mod process;
mod profile;
mod source;
mod stats;
mod tally;
mod test;
#[cfg(test)]
mod unlisted_tests;
mod words;

use std::process::ExitCode;

use error::Error;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  check           formatting, wording, layers, lints in every feature profile, documentation;
                  --stats only prints the lines of code of each crate
  test            all tests, with real MCP clients against the built programs
  docs [--check]  write docs/reference from the code, or only compare it
  bench [NAME]    benchmarks, all or one; --smoke for a short run
  fuzz [TARGET]   fuzzing, all targets or one; --seconds N, --seed N, --input FILE
  order           write the functions that the skill server runs, for the linker
  ci              everything above but `order`, as continuous integration runs it";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["check"] => check::run(),
        ["check", "--stats"] => stats::print(),
        ["test"] => test::run(),
        ["docs"] => docs::write(),
        ["docs", "--check"] => docs::compare(),
        ["bench", rest @ ..] => bench::run(rest),
        ["fuzz", rest @ ..] => fuzz::run(rest),
        ["order"] => link_order::run(),
        ["ci"] => ci::run(),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        [] => Err(Error::Usage("no command given".to_owned())),
        other => Err(Error::Usage(format!("unknown command `{}`", other.join(" ")))),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // The test report must stay the last line.
        Err(Error::Tests) => ExitCode::FAILURE,
        Err(Error::Usage(problem)) => {
            eprintln!("error: {problem}\n\n{USAGE}");
            ExitCode::from(2)
        }
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::FAILURE
        }
    }
}
