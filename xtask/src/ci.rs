//! `ci`: all that continuous integration runs, part by part, with the time each part took.

use std::time::Instant;

use crate::error::Error;
use crate::process::{self, cargo};
use crate::{bench, check, docs, fuzz, test};

/// How long each target is fuzzed: enough to notice what a change broke, not to find what was never looked for.
const FUZZ_SECONDS: &str = "5";

/// Runs every part in order and stops at the first that fails.
pub(crate) fn run() -> Result<(), Error> {
    part("check", check::run)?;
    part("docs --check", docs::compare)?;
    part("test", test::run)?;
    part("release build", || process::run(&mut cargo(["build", "--release", "--workspace"])))?;
    part("fuzz", || fuzz::run(&["--seconds", FUZZ_SECONDS]))?;
    part("bench --smoke", || bench::run(&["--smoke"]))?;
    Ok(())
}

fn part(name: &str, work: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
    println!("\n== {name}");
    let start = Instant::now();
    let outcome = work();
    println!("{name}: {} s", start.elapsed().as_secs());
    outcome
}
