//! `bench`: the benchmarks, in a release build.

use crate::error::Error;
use crate::process::{self, cargo};

const PACKAGE: &str = "meerkat-bench";

/// Runs the benchmark program with these arguments: a name, flags, or nothing for all.
pub(crate) fn run(arguments: &[&str]) -> Result<(), Error> {
    // The benchmarks start these programs, and find them beside their own.
    process::run(&mut cargo([
        "build",
        "--release",
        "--package",
        PACKAGE,
        "--package",
        "meerkat-mcp-server",
    ]))?;
    let program = ["run", "--release", "--package", PACKAGE, "--"];
    process::run(&mut cargo(program.iter().chain(arguments).copied()))
}
