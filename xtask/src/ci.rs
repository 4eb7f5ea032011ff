//! `ci`: everything that continuous integration runs, step by step, with the duration of each step.

use std::time::Instant;

use crate::error::Error;
use crate::process::{self, cargo};
use crate::{bench, check, docs, fuzz, test};

/// Fuzzing time per target: enough to notice what a change broke, not to find deep bugs.
const FUZZ_SECONDS: &str = "5";

/// Runs every step in order and stops at the first failure.
pub(crate) fn run() -> Result<(), Error> {
    step("check", check::run)?;
    step("docs --check", docs::compare)?;
    step("test", test::run)?;
    step("release build", || process::run(&mut cargo(["build", "--release", "--workspace"])))?;
    step("fuzz", || fuzz::run(&["--seconds", FUZZ_SECONDS]))?;
    step("bench --smoke", || bench::run(&["--smoke"]))?;
    Ok(())
}

fn step(name: &str, work: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
    println!("\n== {name}");
    let start = Instant::now();
    let outcome = work();
    println!("{name}: {} s", start.elapsed().as_secs());
    outcome
}
