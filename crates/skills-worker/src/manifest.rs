//! Manifest of the binary.

use meerkat_registry::Options;
use serde_json::{Value, json};

/// Returns the manifest of the binary, built for `target`.
#[must_use]
pub fn manifest(target: &str) -> Value {
    let Options { scopes, timeout } = Options::default();
    json!({
        "name": "skills",
        "version": env!("CARGO_PKG_VERSION"),
        "description": "Registry of skills and prompts that workers publish, with the resolver of iii:// resources.",
        "default_config": {
            "scopes": { "prompts": scopes.prompts, "skills": scopes.skills },
            "state_timeout_ms": u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
        },
        "supported_targets": [target],
    })
}

/// Returns the target triple of this build.
#[must_use]
pub fn target() -> String {
    let environment = if cfg!(target_env = "musl") { "musl" } else { "gnu" };
    triple(std::env::consts::ARCH, std::env::consts::OS, environment)
}

/// Formats a target triple. The standard library uses shorter names than target triples for some architectures.
fn triple(arch: &str, os: &str, environment: &str) -> String {
    let (arch, abi) = match arch {
        "x86" => ("i686", ""),
        "arm" => ("armv7", "eabihf"),
        other => (other, ""),
    };
    match os {
        "linux" => format!("{arch}-unknown-linux-{environment}{abi}"),
        "macos" => format!("{arch}-apple-darwin"),
        "windows" => format!("{arch}-pc-windows-msvc"),
        other => format!("{arch}-unknown-{other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn supported_targets_have_distinct_triples() {
        for (arch, os, environment, expected) in [
            ("x86_64", "macos", "gnu", "x86_64-apple-darwin"),
            ("aarch64", "macos", "gnu", "aarch64-apple-darwin"),
            ("x86", "windows", "gnu", "i686-pc-windows-msvc"),
            ("x86_64", "windows", "gnu", "x86_64-pc-windows-msvc"),
            ("aarch64", "windows", "gnu", "aarch64-pc-windows-msvc"),
            ("x86_64", "linux", "gnu", "x86_64-unknown-linux-gnu"),
            ("aarch64", "linux", "gnu", "aarch64-unknown-linux-gnu"),
            ("x86_64", "linux", "musl", "x86_64-unknown-linux-musl"),
            ("arm", "linux", "gnu", "armv7-unknown-linux-gnueabihf"),
        ] {
            assert_eq!(triple(arch, os, environment), expected);
        }
    }

    #[test]
    fn manifest_keys_are_in_order() {
        let manifest_json = manifest("x86_64-unknown-linux-gnu");
        let keys: Vec<&str> = manifest_json.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["name", "version", "description", "default_config", "supported_targets"]);
        let defaults =
            json!({ "scopes": { "prompts": "prompts", "skills": "skills" }, "state_timeout_ms": 10000 });
        assert_eq!(manifest_json["default_config"], defaults);
    }
}
