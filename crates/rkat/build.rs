//! Places the functions that `rkat` uses at startup next to each other in the binary.
//!
//! The operating system loads a binary in pieces of 64 KiB. `rkat skill serve` runs a twentieth of the code, and
//! without an order it is spread over half of those pieces. `start.order` lists the names by crate; `cargo xtask order`
//! generates it. A name that matches nothing is harmless: the process only uses more memory. For the same reason,
//! the relocations of both binaries are packed where the C library supports it.

#![expect(
    clippy::disallowed_methods,
    reason = "cargo passes build settings to a build script in the environment"
)]

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs, io};

const NAMES: &str = "start.order";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={NAMES}");
    let Some(dir) = env::var_os("OUT_DIR").filter(|_| is_release() && is_usual_linker()) else {
        return Ok(());
    };
    let script = PathBuf::from(dir).join("start.ld");
    fs::write(&script, linker_script(&fs::read_to_string(NAMES)?))?;
    println!("cargo::rustc-link-arg-bin=rkat=-Wl,-T,{}", script.display());
    if loads_packed_relocations() {
        // The loader reads all relocations of a binary at startup: packed, they take 40 KB instead of 1.2 MB.
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    Ok(())
}

/// Returns `true` if the C library of this machine loads packed relocations; glibc does since 2.36.
fn loads_packed_relocations() -> bool {
    let Ok(output) = Command::new("getconf").arg("GNU_LIBC_VERSION").output() else { return false };
    let version = String::from_utf8_lossy(&output.stdout).trim().strip_prefix("glibc ").map(str::to_owned);
    let numbers = version.as_deref().and_then(|version| version.split_once('.'));
    let parsed = numbers.map(|(major, minor)| (major.parse::<u32>(), minor.parse::<u32>()));
    matches!(parsed, Some((Ok(major), Ok(minor))) if (major, minor) >= (2, 36))
}

fn is(name: &str, value: &str) -> bool {
    env::var_os(name).is_some_and(|actual| actual == value)
}

fn is_release() -> bool {
    is("PROFILE", "release")
}

/// Returns `true` if the compiler's default linker is used; others may not support the script.
fn is_usual_linker() -> bool {
    let target = is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
        && is("CARGO_CFG_TARGET_ARCH", "x86_64");
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    target && env::var_os("RUSTC_LINKER").is_none() && !flags.contains("link")
}

/// Builds a linker script that places the sections of the functions first: those of hot code, then those that the
/// compiler considers unlikely.
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
