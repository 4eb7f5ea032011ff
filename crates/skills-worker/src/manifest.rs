//! What the program says of itself.

use meerkat_registry::Options;
use serde_json::{Value, json};

/// The manifest of the program, built for `target`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_has_its_keys_in_order() {
        let found = manifest("x86_64-unknown-linux-gnu");
        let keys: Vec<&str> = found.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["name", "version", "description", "default_config", "supported_targets"]);
        let defaults =
            json!({ "scopes": { "prompts": "prompts", "skills": "skills" }, "state_timeout_ms": 10000 });
        assert_eq!(found["default_config"], defaults);
    }
}
