//! `test`: all tests, with a final line that counts them.
//!
//! The steps run in order until one fails; the tests of that step all run, so that one run shows every failure of a
//! step.

use std::process::Command;

use crate::clients;
use crate::error::Error;
use crate::examples;
use crate::process::{self, cargo, run_tapped};
use crate::profile::PROFILES;
use crate::tally::Tally;

/// Builds the program that sends requests of every kind to the request checks of the client tests.
const WIRE_MATRIX: [&str; 5] =
    ["build", "--package=meerkat-providers", "--all-features", "--example", "wire_matrix"];

/// Builds the programs that require a feature, and the test binaries, with the same features as the tests.
const FEATURED: [&str; 7] =
    ["build", "--workspace", "--all-features", "--bin", "skills", "--example", "bare_hub"];

/// Runs all tests; the last line printed is `N passed, M failed`.
pub(crate) fn run() -> Result<(), Error> {
    let mut tally = Tally::default();
    let outcome = run_steps(&mut tally);
    if let Err(problem) = &outcome {
        eprintln!("error: {problem}");
    }
    println!("{tally}");
    outcome.map_err(|_| Error::Tests)
}

fn run_steps(tally: &mut Tally) -> Result<(), Error> {
    counted(tally, |_| clients::install())?;
    // The client tests, and tests that start our binaries, expect them in the target directory.
    counted(tally, |_| process::run(&mut cargo(["build", "--workspace"])))?;
    let fixtures = ["build", "--workspace", "--example", "conformance_server"];
    counted(tally, |_| process::run(&mut cargo(fixtures)))?;
    counted(tally, |_| process::run(&mut cargo(WIRE_MATRIX)))?;
    cargo_tests(tally, &["--workspace", "--all-features"])?;
    counted(tally, |_| examples::run())?;
    counted(tally, |_| process::run(&mut cargo(FEATURED)))?;
    for profile in PROFILES.iter().filter(|profile| !profile.is_default()) {
        println!("profile {}", profile.name);
        let mut arguments = profile.arguments();
        arguments.extend(["--test", "it"]);
        cargo_tests(tally, &arguments)?;
    }
    for script in clients::SCRIPTS {
        let mut command = clients::script(script)?;
        tapped(tally, &mut command, Tally::add_client_line)?;
    }
    Ok(())
}

fn cargo_tests(tally: &mut Tally, arguments: &[&str]) -> Result<(), Error> {
    let mut command = cargo(["test", "--no-fail-fast"].iter().chain(arguments).copied());
    tapped(tally, &mut command, Tally::add_cargo_line)
}

fn tapped(tally: &mut Tally, command: &mut Command, add: fn(&mut Tally, &str)) -> Result<(), Error> {
    counted(tally, |tally| run_tapped(command, |line| add(tally, line)))
}

fn counted(tally: &mut Tally, step: impl FnOnce(&mut Tally) -> Result<(), Error>) -> Result<(), Error> {
    let before = *tally;
    let outcome = step(tally);
    if outcome.is_err() {
        tally.add_broken_step(before);
    }
    outcome
}
