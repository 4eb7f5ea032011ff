//! Running other programs: prints the command line, shares the terminal, and returns an error on failure.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::Error;

/// Returns the root of the repository.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_owned()
}

/// Returns a `cargo` command that runs at the root of the repository.
///
/// The command does not inherit the environment that `cargo xtask` set for this program: build scripts that read it
/// would run again after each switch between `cargo` and `cargo xtask`, and everything that depends on them would be
/// recompiled.
pub(crate) fn cargo<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new("cargo");
    command.args(arguments).current_dir(root());
    for (name, _) in std::env::vars_os() {
        if ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|start| name.to_string_lossy().starts_with(start)) {
            command.env_remove(name);
        }
    }
    command
}

/// Runs a program on this terminal.
pub(crate) fn run(command: &mut Command) -> Result<(), Error> {
    let line = announce(command);
    let status = command.status().map_err(|source| Error::Start { command: line.clone(), source })?;
    if status.success() { Ok(()) } else { Err(Error::Failed { command: line, status }) }
}

/// Runs a program on this terminal and passes every line of its standard output to `tap` as well.
pub(crate) fn run_tapped(command: &mut Command, mut tap: impl FnMut(&str)) -> Result<(), Error> {
    let line = announce(command);
    let start = |source| Error::Start { command: line.clone(), source };
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(start)?;
    if let Some(output) = child.stdout.take() {
        copy_lines(output, &mut tap).map_err(start)?;
    }
    let status = child.wait().map_err(start)?;
    if status.success() { Ok(()) } else { Err(Error::Failed { command: line, status }) }
}

/// Copies bytes: the output of a test need not be text.
fn copy_lines(output: impl std::io::Read, tap: &mut impl FnMut(&str)) -> std::io::Result<()> {
    let mut reader = BufReader::new(output);
    let mut bytes = Vec::new();
    while reader.read_until(b'\n', &mut bytes)? > 0 {
        let mut terminal = std::io::stdout().lock();
        terminal.write_all(&bytes)?;
        terminal.flush()?;
        tap(String::from_utf8_lossy(&bytes).trim_end());
        bytes.clear();
    }
    Ok(())
}

fn announce(command: &Command) -> String {
    let mut line = String::new();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            // Writing to a string cannot fail.
            let _ = write!(line, "{}={} ", name.to_string_lossy(), value.to_string_lossy());
        }
    }
    line.push_str(&command.get_program().to_string_lossy());
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&argument.to_string_lossy());
    }
    eprintln!("$ {line}");
    line
}
