//! What `rkat-mcp` reads from its surroundings, and nothing else does.
//!
//! - `XDG_DATA_HOME`, `HOME`, `APPDATA`: where realms are kept.
//! - `RKAT_TOKEN`: the bearer token that HTTP clients must show.

#![expect(clippy::disallowed_methods, reason = "this is the program's one file that reads the environment")]

use std::path::PathBuf;

use meerkat::Surroundings;

pub(crate) fn surroundings() -> Surroundings {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let data_home = if cfg!(windows) {
        set("APPDATA")
    } else if cfg!(target_os = "macos") {
        set("HOME").map(|home| home.join("Library/Application Support"))
    } else {
        set("XDG_DATA_HOME").or_else(|| set("HOME").map(|home| home.join(".local/share")))
    };
    Surroundings { data_home, current_dir: std::env::current_dir().ok() }
}

/// Looks a key or token up by the name of its variable.
pub(crate) fn secret(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The token that HTTP clients must show.
pub(crate) fn token() -> Option<String> {
    std::env::var("RKAT_TOKEN").ok().filter(|token| !token.is_empty())
}
