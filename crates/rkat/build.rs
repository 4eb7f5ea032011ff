//! Lays the functions that a start runs beside each other.
//!
//! The system brings a program into memory in pieces of 64 KiB. What `rkat skill serve` runs is a twentieth of the
//! program, and without an order it is strewn over half of those pieces. `start.order` has the names by crate, and
//! `cargo xtask order` writes it. A name that fits nothing does no harm: the program is only larger in memory.

#![expect(clippy::disallowed_methods, reason = "cargo tells a build script of the build by the environment")]

use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs, io};

const NAMES: &str = "start.order";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={NAMES}");
    let Some(folder) = env::var_os("OUT_DIR").filter(|_| is_release() && is_usual_linker()) else {
        return Ok(());
    };
    let script = PathBuf::from(folder).join("start.ld");
    fs::write(&script, linker_script(&fs::read_to_string(NAMES)?))?;
    println!("cargo::rustc-link-arg-bins=-Wl,-T,{}", script.display());
    Ok(())
}

fn is(name: &str, value: &str) -> bool {
    env::var_os(name).is_some_and(|found| found == value)
}

fn is_release() -> bool {
    is("PROFILE", "release")
}

/// Says whether the linker is the one that comes with the compiler; others may not know the script.
fn is_usual_linker() -> bool {
    let target = is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
        && is("CARGO_CFG_TARGET_ARCH", "x86_64");
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    target && env::var_os("RUSTC_LINKER").is_none() && !flags.contains("link")
}

/// Names the sections of the functions, each of which has its own, for them to come before all others: first what is
/// run at any time, then what the compiler takes for rare.
fn linker_script(names: &str) -> String {
    let mut script = "SECTIONS\n{\n  .text : {\n".to_owned();
    for kind in [".text.", ".text.unlikely."] {
        for group in names.split("\n[").skip(1) {
            let mut lines = group.lines();
            let name = lines.next().unwrap_or_default().trim_end_matches(']');
            // Writing to a string does not fail.
            let _ = writeln!(script, "    *lib{name}-*.rlib:*(");
            for line in lines.filter(|line| !line.is_empty()) {
                let _ = writeln!(script, "      {kind}{line}");
            }
            script += "    )\n";
        }
    }
    script + "  }\n}\nINSERT BEFORE .init;\n"
}
