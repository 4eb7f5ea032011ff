//! Environment of `rkat-mcp`; no other module reads it.
//!
//! - `XDG_DATA_HOME`, `HOME`, `APPDATA`: where realms are stored.
//! - `HOME`, `USERPROFILE`: where the user's skills and MCP config file are.
//! - the rest of the environment: MCP servers get it without secrets, plus the variables their entries name.
//! - `TMPDIR`: where shell commands put temporary files.
//! - `TZ`: the time zone of the `datetime` tool.
//! - `RKAT_TOKEN`: the bearer token that HTTP clients must send.
//! - `RKAT_LOG` and the OpenTelemetry variables: logging and tracing.

#![expect(clippy::disallowed_methods, reason = "only this file reads the environment")]

use std::path::PathBuf;

use meerkat::{Redactor, ServerEnvironment, SystemDirs, ToolboxOptions};
use meerkat_telemetry::Settings;

pub(crate) fn system_dirs() -> SystemDirs {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let data_home = if cfg!(windows) {
        set("APPDATA")
    } else if cfg!(target_os = "macos") {
        set("HOME").map(|home| home.join("Library/Application Support"))
    } else {
        set("XDG_DATA_HOME").or_else(|| set("HOME").map(|home| home.join(".local/share")))
    };
    SystemDirs { data_home, current_dir: std::env::current_dir().ok(), home: home() }
}

/// Returns the user's home directory.
pub(crate) fn home() -> Option<PathBuf> {
    let name = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
    std::env::var_os(name).filter(|home| !home.is_empty()).map(PathBuf::from)
}

/// Returns the key or token in an environment variable.
pub(crate) fn secret(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Returns where MCP servers are configured, and the environment they are started with.
pub(crate) fn servers(
    project: Option<PathBuf>,
    home: Option<PathBuf>,
    redactor: &Redactor,
) -> ServerEnvironment {
    ServerEnvironment {
        project,
        home: home.or_else(self::home),
        environment: std::env::vars_os()
            .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
            .collect(),
        program: std::env::current_exe().ok(),
        redactor: redactor.clone(),
    }
}

/// Returns the options of the built-in tools, which work in the project directory and cannot access stored realms.
pub(crate) fn tools(project: Option<PathBuf>, realms: PathBuf) -> ToolboxOptions {
    let server_env = servers(project, None, &Redactor::default());
    ToolboxOptions {
        workspace: server_env.project.or_else(|| system_dirs().current_dir),
        home: server_env.home,
        temp_dir: std::env::var_os("TMPDIR").filter(|dir| !dir.is_empty()).map(PathBuf::from),
        hidden_dirs: vec![realms],
        environment: server_env.environment,
        supervisor: server_env.program,
        time_zone: meerkat::TimeZone::system,
    }
}

/// Returns a redactor for the secrets in the environment.
pub(crate) fn secrets() -> Redactor {
    let redactor = Redactor::default();
    let server_env = servers(None, None, &redactor);
    server_env.environment.iter().for_each(|(name, value)| redactor.add_named(name, value));
    redactor
}

/// Returns the logging and tracing settings.
pub(crate) fn telemetry(redactor: &Redactor) -> Settings {
    Settings::read(&secret, "rkat-mcp", redactor)
}

/// Returns the token that HTTP clients must send.
pub(crate) fn token() -> Option<String> {
    std::env::var("RKAT_TOKEN").ok().filter(|token| !token.is_empty())
}
