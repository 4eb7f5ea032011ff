//! Environment of `rkat` and `rkat-mcp`. Only this module reads it.

#![expect(clippy::disallowed_methods, reason = "only this file reads the environment")]

use std::io::IsTerminal as _;
use std::path::PathBuf;

use meerkat::{Redactor, SystemDirs};
use meerkat_telemetry::Settings;

use crate::render::{Cells, Page};

/// All environment variables, with their meanings.
pub const VARIABLES: &[(&str, &str)] = &[
    ("XDG_DATA_HOME", "Directory of realms on Linux: `$XDG_DATA_HOME/meerkat/realms`."),
    (
        "HOME",
        "Directory of realms otherwise: `~/.local/share/meerkat/realms`, on macOS under `~/Library/Application Support`. Your skills are in `~/.agent/skills`, `~/.agents/skills`, `~/.claude/skills`, and `~/.rkat/skills`.",
    ),
    ("APPDATA", "Directory of realms on Windows."),
    ("USERPROFILE", "Directory of your skills on Windows."),
    ("RKAT_ANTHROPIC_API_KEY, ANTHROPIC_API_KEY", "API key for Anthropic; the first one set is used."),
    ("RKAT_OPENAI_API_KEY, OPENAI_API_KEY", "API key for OpenAI; the first one set is used."),
    (
        "RKAT_GEMINI_API_KEY, GEMINI_API_KEY, RKAT_GOOGLE_API_KEY, GOOGLE_API_KEY",
        "API key for Gemini; the first one set is used.",
    ),
    (
        "NAME",
        "Any variable that an MCP config file refers to as `${NAME}`, which is replaced with its value.",
    ),
    (
        "RKAT_MCP_CLIENT_SECRET",
        "Secret of the OAuth client passed to `rkat mcp login --client-id`, if it has one.",
    ),
    (
        "RKAT_TOKEN",
        "Bearer token that clients of `rkat serve` and `rkat-mcp --http` must send, instead of the realm's own.",
    ),
    ("TMPDIR", "Directory for temporary files of shell commands; `/tmp` if not set."),
    ("TZ", "Time zone used by the tool `datetime`; the system time zone if not set."),
    ("NO_COLOR", "Disables colors if set to any value."),
    ("COLUMNS", "Maximum table width; if not set, 100 columns on a terminal and unlimited elsewhere."),
];

fn set(name: &str) -> Option<std::ffi::OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Returns the system directories.
pub(crate) fn system_dirs() -> SystemDirs {
    let dir = |name: &str| set(name).map(PathBuf::from);
    let data_home = if cfg!(windows) {
        dir("APPDATA")
    } else if cfg!(target_os = "macos") {
        dir("HOME").map(|home| home.join("Library/Application Support"))
    } else {
        dir("XDG_DATA_HOME").or_else(|| dir("HOME").map(|home| home.join(".local/share")))
    };
    SystemDirs { data_home, current_dir: std::env::current_dir().ok(), home: home() }
}

/// Returns the user's home directory.
pub(crate) fn home() -> Option<PathBuf> {
    set(if cfg!(windows) { "USERPROFILE" } else { "HOME" }).map(PathBuf::from)
}

/// Returns `true` if stdout is a terminal.
pub(crate) fn stdout_is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// Returns `true` if stdin is a terminal.
pub(crate) fn stdin_is_terminal() -> bool {
    std::io::stdin().is_terminal()
}

/// Kind of stdin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StdinKind {
    Terminal,
    /// A file, which has a known end.
    File,
    /// A pipe or socket, which ends when its writer closes it.
    Stream,
    /// The null device, a directory, or nothing.
    Nothing,
}

impl StdinKind {
    /// Returns `true` for a file, pipe, or socket.
    pub(crate) const fn is_readable(self) -> bool {
        matches!(self, Self::File | Self::Stream)
    }
}

/// Returns the kind of stdin.
pub(crate) fn stdin_kind() -> StdinKind {
    if stdin_is_terminal() { StdinKind::Terminal } else { redirected_stdin() }
}

#[cfg(unix)]
fn redirected_stdin() -> StdinKind {
    use std::os::fd::AsFd as _;
    use std::os::unix::fs::FileTypeExt as _;
    let copy = std::io::stdin().as_fd().try_clone_to_owned();
    let kind = copy.and_then(|copy| std::fs::File::from(copy).metadata()).map(|data| data.file_type());
    match kind {
        Ok(kind) if kind.is_file() => StdinKind::File,
        Ok(kind) if kind.is_fifo() || kind.is_socket() => StdinKind::Stream,
        _ => StdinKind::Nothing,
    }
}

#[cfg(not(unix))]
fn redirected_stdin() -> StdinKind {
    StdinKind::Stream
}

/// Opens the terminal for input, even if stdin is redirected; `None` if stderr is not a terminal.
pub(crate) fn keyboard() -> Option<Box<dyn std::io::BufRead + Send>> {
    if !stderr_is_terminal() {
        return None;
    }
    if stdin_is_terminal() {
        return Some(Box::new(std::io::BufReader::new(std::io::stdin())));
    }
    let device = if cfg!(windows) { "CONIN$" } else { "/dev/tty" };
    let keyboard = std::fs::File::open(device).ok()?;
    Some(Box::new(std::io::BufReader::new(keyboard)))
}

/// Returns `true` if stderr is a terminal.
pub(crate) fn stderr_is_terminal() -> bool {
    std::io::stderr().is_terminal()
}

/// Returns `true` if notes on stderr may be dimmed.
pub(crate) fn stderr_has_colors() -> bool {
    std::io::stderr().is_terminal() && set("NO_COLOR").is_none()
}

/// Returns the page that tables are printed on.
pub(crate) fn page() -> Page {
    let is_terminal = stdout_is_terminal();
    let requested = set("COLUMNS").and_then(|text| text.to_str().and_then(|text| text.parse().ok()));
    let columns = requested.unwrap_or(if is_terminal { 100 } else { usize::MAX });
    Page { columns, cells: if is_terminal { Cells::Escaped } else { Cells::Verbatim } }
}

/// Returns the value of the variable that holds a key or token.
pub(crate) fn secret(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Reads the telemetry settings of a binary, with warnings about invalid ones.
pub(crate) fn telemetry(service: &str, redactor: &Redactor) -> Settings {
    Settings::read(&secret, service, redactor)
}

/// Returns the full environment. MCP servers get the part without secrets.
pub(crate) fn all() -> std::collections::BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// Returns the path of this binary.
pub(crate) fn program() -> Option<PathBuf> {
    std::env::current_exe().ok()
}

/// Returns the directory for temporary files.
pub(crate) fn temp_dir() -> Option<PathBuf> {
    set("TMPDIR").map(PathBuf::from)
}

/// Returns the system time zone.
pub(crate) fn time_zone() -> meerkat::TimeZone {
    meerkat::TimeZone::system()
}

/// Returns the token that clients must send.
pub(crate) fn token() -> Option<String> {
    set("RKAT_TOKEN").and_then(|token| token.into_string().ok())
}
