//! A program that can be the helper of sandboxed programs, for the tests of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    if let Some(code) = meerkat_sandbox::run_helper(std::env::args_os()) {
        return code;
    }
    ExitCode::FAILURE
}
