//! `bench`: the benchmarks, in a release build.

use crate::error::Error;
use crate::process::{self, cargo};

const PACKAGE: &str = "meerkat-bench";

/// Runs the benchmark program with these arguments: a name, flags, or nothing for all.
pub(crate) fn run(arguments: &[&str]) -> Result<(), Error> {
    let program = ["run", "--release", "--package", PACKAGE, "--"];
    process::run(&mut cargo(program.iter().chain(arguments).copied()))
}

/// Whether the workspace has benchmarks.
pub(crate) fn exist() -> bool {
    let mut question = cargo(["pkgid", "--quiet", "--package", PACKAGE]);
    question.output().is_ok_and(|answer| answer.status.success())
}
