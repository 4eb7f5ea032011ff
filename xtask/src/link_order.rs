//! `order`: lists the functions that the skill server runs, so that the linker places them together.
//!
//! `crates/rkat/build.rs` explains the purpose. A function is identified by its crate and its name without hashes, so
//! that the list fits every build of the same code. Requires valgrind.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::Error;
use crate::process::{self, cargo, root};

const LIST: &str = "crates/rkat/start.order";
const HEAD: &str =
    "# The functions that `rkat skill serve` runs; build.rs says why. Written by `cargo xtask order`.\n";
/// Messages of a client up to the tool list; each except the second gets a one-line response.
const MESSAGES: [&str; 3] = [
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"order","version":"0"}}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
];

/// Functions by crate.
type Functions = BTreeMap<String, BTreeSet<String>>;

/// Runs the server once and writes the list.
pub(crate) fn run() -> Result<(), Error> {
    let dir = root().join("target/order");
    let (map, trace) = (dir.join("link.map"), dir.join("callgrind.out"));
    // Separate from other builds, because this executable retains its symbols.
    let build = ["rustc", "--release", "--package=rkat", "--bin=rkat", "--target-dir=target/order"];
    let link = format!("-Clink-arg=-Wl,-Map={}", map.display());
    process::run(cargo(build).args(["--", "-Cstrip=none", &link]))?;
    let skill = dir.join("home/.agent/skills/one/SKILL.md");
    fs::create_dir_all(skill.parent().unwrap_or(&dir)).map_err(Error::file(&skill))?;
    fs::write(&skill, "---\nname: one\ndescription: One.\n---\n").map_err(Error::file(&skill))?;
    run_session(&dir, &trace)?;
    let read = |path: &Path| fs::read_to_string(path).map_err(Error::file(path));
    let list = root().join(LIST);
    fs::write(&list, render(&functions(&read(&trace)?, &read(&map)?))).map_err(Error::file(&list))
}

/// Sends the messages to the server while its function calls are counted.
fn run_session(dir: &Path, trace: &Path) -> Result<(), Error> {
    let home = dir.join("home");
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--tool=callgrind", "--demangle=no", "--compress-strings=no"]);
    command.arg(format!("--callgrind-out-file={}", trace.display()));
    command.arg(dir.join("release/rkat")).args(["skill", "serve"]);
    command.current_dir(&home).env("HOME", &home).stdin(Stdio::piped()).stdout(Stdio::piped());
    let failed = |source| Error::Start { command: "valgrind".to_owned(), source };
    let mut child = command.spawn().map_err(failed)?;
    let (input, output) = (child.stdin.take(), child.stdout.take());
    if let (Some(mut input), Some(output)) = (input, output) {
        let mut answers = BufReader::new(output).lines();
        for line in MESSAGES {
            writeln!(input, "{line}").map_err(failed)?;
            if line.contains("\"id\"") {
                answers.next().transpose().map_err(failed)?;
            }
        }
    }
    // Its input has ended, so the server exits.
    let status = child.wait().map_err(failed)?;
    if status.success() { Ok(()) } else { Err(Error::Failed { command: "valgrind".to_owned(), status }) }
}

/// Finds the functions of a trace in the linker map of the program.
fn functions(trace: &str, map: &str) -> Functions {
    let called = trace.lines().filter_map(|line| line.strip_prefix("cfn=").or(line.strip_prefix("fn=")));
    // Recursive functions are traced with a number.
    let called: HashSet<&str> = called.map(|name| name.split('\'').next().unwrap_or(name)).collect();
    let mut functions = Functions::new();
    for (library, name) in map.lines().filter_map(parse_map_line) {
        if let Some(pattern) = Some(name).filter(|name| called.contains(name)).and_then(pattern) {
            functions.entry(library.to_owned()).or_default().insert(pattern);
        }
    }
    functions
}

/// Returns the crate and the name of a function from a line of the linker map.
fn parse_map_line(line: &str) -> Option<(&str, &str)> {
    let (file, section) = line.split_once(":(.text.")?;
    let (path, _) = file.split_once(".rlib(")?;
    let (library, _) = path.rsplit('/').next()?.strip_prefix("lib")?.rsplit_once('-')?;
    let name = section.strip_suffix(')')?;
    Some((library, name.strip_prefix("unlikely.").unwrap_or(name)))
}

/// Turns a mangled name into a pattern with wildcards for the hash of the function, or those of its crates.
fn pattern(name: &str) -> Option<String> {
    if let Some(rest) = name.strip_prefix("_ZN") {
        let (path, _) = rest.rsplit_once("17h")?;
        return Some(format!("_ZN{path}17h*"));
    }
    let rest = name.strip_prefix("_R")?;
    let plain = rest.split('.').next()?;
    let mut parts = plain.split("Cs");
    let mut pattern = format!("_R{}", parts.next()?);
    for part in parts {
        pattern += "Cs*";
        pattern += part.find('_').map_or(part, |at| &part[at..]);
    }
    Some(pattern + "*")
}

fn render(functions: &Functions) -> String {
    functions.iter().fold(HEAD.to_owned(), |mut text, (library, names)| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\n[{library}]");
        names.iter().for_each(|name| text += &format!("{name}\n"));
        text
    })
}

#[cfg(test)]
mod tests {
    use super::{HEAD, functions, render};

    #[test]
    fn functions_are_listed_by_crate_without_hashes() {
        let trace = "fn=_ZN4rkat4main17h0123456789abcdefE\n\
            cfn=_ZN4rkat4main17h0123456789abcdefE'2\n\
            0x10 0 4\n\
            fn=_RNvMNtCsjrHSEGnQ3l9_3std4pathNtB2_4Path5_join\n\
            cfn=malloc\n";
        let map = "\
            8f5 8f5 e 16 /deps/librkat-57.rlib(rkat.o):(.text.unlikely._ZN4rkat4main17h0123456789abcdefE)\n\
            8f5 8f5 e 16 /deps/librkat-57.rlib(rkat.o):(.text._ZN4rkat4idle17h0123456789abcdefE)\n\
            8f5 8f5 e 16 /lib/libstd-a-1.rlib(std.o):(.text._RNvMNtCsjrHSEGnQ3l9_3std4pathNtB2_4Path5_join)\n";
        let expected = "\n[rkat]\n_ZN4rkat4main17h*\n\n[std-a]\n_RNvMNtCs*_3std4pathNtB2_4Path5_join*\n";
        assert_eq!(render(&functions(trace, map)), format!("{HEAD}{expected}"));
    }
}
