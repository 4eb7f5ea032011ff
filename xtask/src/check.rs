//! `check`: everything that can be checked without running the code.

use crate::error::Error;
use crate::graph;
use crate::process::{self, cargo};
use crate::profile::{PROFILES, Profile, SINGLE_FEATURES};
use crate::words;

const DENY_WARNINGS: [&str; 3] = ["--", "-D", "warnings"];

/// Checks formatting, wording, lints (whole workspace, then each profile) and documentation.
pub(crate) fn run() -> Result<(), Error> {
    process::run(&mut cargo(["fmt", "--all", "--check"]))?;
    words::check()?;
    graph::check()?;
    let workspace = ["clippy", "--workspace", "--all-targets", "--all-features"];
    process::run(&mut cargo(workspace.into_iter().chain(DENY_WARNINGS)))?;
    for profile in PROFILES.into_iter().chain(SINGLE_FEATURES.map(Profile::of_feature)) {
        println!("profile {}", profile.name);
        let arguments = std::iter::once("clippy").chain(profile.arguments()).chain(DENY_WARNINGS);
        process::run(&mut cargo(arguments))?;
    }
    process::run(cargo(["doc", "--no-deps", "--workspace"]).env("RUSTDOCFLAGS", "-Dwarnings"))
}
