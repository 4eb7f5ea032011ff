//! What `rkat-mcp` reads from its surroundings, and nothing else does.
//!
//! - `XDG_DATA_HOME`, `HOME`, `APPDATA`: where realms are kept.
//! - `HOME`, `USERPROFILE`: where the user's skills and file of MCP servers are.
//! - the rest of the environment: MCP servers get the harmless part of it, and what their entries name.
//! - `TMPDIR`: where shell commands keep temporary files.
//! - `TZ`: the time zone of the tool `datetime`.
//! - `RKAT_TOKEN`: the bearer token that HTTP clients must show.
//! - `RKAT_LOG` and the variables of OpenTelemetry: what should be seen of the program.

#![expect(clippy::disallowed_methods, reason = "this is the program's one file that reads the environment")]

use std::path::PathBuf;

use meerkat::{Redactor, ServerSurroundings, Surroundings, ToolboxOptions};
use meerkat_telemetry::Settings;

pub(crate) fn surroundings() -> Surroundings {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let data_home = if cfg!(windows) {
        set("APPDATA")
    } else if cfg!(target_os = "macos") {
        set("HOME").map(|home| home.join("Library/Application Support"))
    } else {
        set("XDG_DATA_HOME").or_else(|| set("HOME").map(|home| home.join(".local/share")))
    };
    Surroundings { data_home, current_dir: std::env::current_dir().ok(), home: home() }
}

/// The user's home directory.
pub(crate) fn home() -> Option<PathBuf> {
    let name = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
    std::env::var_os(name).filter(|home| !home.is_empty()).map(PathBuf::from)
}

/// Looks a key or token up by the name of its variable.
pub(crate) fn secret(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Where MCP servers are found, and what they are started with.
pub(crate) fn servers(
    project: Option<PathBuf>,
    home: Option<PathBuf>,
    redactor: &Redactor,
) -> ServerSurroundings {
    ServerSurroundings {
        project,
        home: home.or_else(self::home),
        environment: std::env::vars_os()
            .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
            .collect(),
        program: std::env::current_exe().ok(),
        redactor: redactor.clone(),
    }
}

/// Where the built-in tools of agents work: in the project's directory, and never in the directory of realms.
pub(crate) fn tools(project: Option<PathBuf>, realms: PathBuf) -> ToolboxOptions {
    let around = servers(project, None, &Redactor::default());
    ToolboxOptions {
        workspace: around.project.or_else(|| surroundings().current_dir),
        home: around.home,
        temporary: std::env::var_os("TMPDIR").filter(|folder| !folder.is_empty()).map(PathBuf::from),
        private: vec![realms],
        environment: around.environment,
        supervisor: around.program,
        zone: meerkat::TimeZone::system,
    }
}

/// The values of the environment that are secrets.
pub(crate) fn secrets() -> Redactor {
    let redactor = Redactor::default();
    let around = servers(None, None, &redactor);
    around.environment.iter().for_each(|(name, value)| redactor.learn_named(name, value));
    redactor
}

/// What should be seen of the program.
pub(crate) fn telemetry(redactor: &Redactor) -> Settings {
    Settings::read(&secret, "rkat-mcp", redactor)
}

/// The token that HTTP clients must show.
pub(crate) fn token() -> Option<String> {
    std::env::var("RKAT_TOKEN").ok().filter(|token| !token.is_empty())
}
