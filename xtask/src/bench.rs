//! `bench`: the benchmarks, in a release build.

use std::path::Path;
use std::process::Command;

use crate::error::Error;
use crate::process::{self, cargo, root};

/// Runs the benchmark program with these arguments: a name, flags, or nothing for all.
pub(crate) fn run(arguments: &[&str]) -> Result<(), Error> {
    run_release("meerkat-bench", arguments)
}

/// Runs a program of the workspace in a release build.
///
/// The full workspace is built: the benchmarks start its programs, and a smaller selection of packages would compile
/// their dependencies again with other features.
pub(crate) fn run_release(program: &str, arguments: &[&str]) -> Result<(), Error> {
    process::run(&mut cargo(["build", "--release", "--workspace"]))?;
    let own = std::env::current_exe().map_err(Error::file(Path::new("xtask")))?;
    let target = own.parent().and_then(Path::parent).unwrap_or(Path::new("target"));
    let program = target.join("release").join(program);
    process::run(Command::new(program).args(arguments).current_dir(root()))
}
