//! `fuzz`: mutated external input, in a release build.

use crate::bench;
use crate::error::Error;

/// Runs the fuzzer with these arguments: a target, `--seconds N`, `--seed N`, `--input FILE`, or nothing for
/// every target.
pub(crate) fn run(arguments: &[&str]) -> Result<(), Error> {
    bench::run_release("meerkat-fuzz", arguments)
}
