//! What `rkat` reads from its surroundings, and nothing else does.

#![expect(clippy::disallowed_methods, reason = "this is the program's one file that reads the environment")]

use std::io::IsTerminal as _;
use std::path::PathBuf;

use meerkat::Surroundings;
use meerkat_telemetry::Settings;

use crate::out;
use crate::render::{Cells, Page};

/// Every environment variable, and what it is for.
pub const VARIABLES: &[(&str, &str)] = &[
    ("XDG_DATA_HOME", "Where realms are kept on Linux: `$XDG_DATA_HOME/meerkat/realms`."),
    (
        "HOME",
        "Where realms are kept otherwise: `~/.local/share/meerkat/realms`, on macOS under `~/Library/Application Support`. Your skills are in `~/.agent/skills`, `~/.agents/skills`, `~/.claude/skills` and `~/.rkat/skills`.",
    ),
    ("APPDATA", "Where realms are kept on Windows."),
    ("USERPROFILE", "Where your skills are on Windows."),
    ("RKAT_ANTHROPIC_API_KEY, ANTHROPIC_API_KEY", "The key for Anthropic; the first that is set is used."),
    ("RKAT_OPENAI_API_KEY, OPENAI_API_KEY", "The key for OpenAI; the first that is set is used."),
    (
        "RKAT_GEMINI_API_KEY, GEMINI_API_KEY, RKAT_GOOGLE_API_KEY, GOOGLE_API_KEY",
        "The key for Gemini; the first that is set is used.",
    ),
    ("any name", "`${NAME}` in a file of MCP servers is replaced with the value of that variable."),
    (
        "RKAT_MCP_CLIENT_SECRET",
        "The secret of the client that `rkat mcp login --client-id` names, if it has one.",
    ),
    (
        "RKAT_TOKEN",
        "The bearer token that clients of `rkat serve` and `rkat-mcp --http` must show, in place of the realm's own.",
    ),
    ("TMPDIR", "Where shell commands keep temporary files; `/tmp` if it is not set."),
    ("TZ", "The time zone that the tool `datetime` tells the time in; the machine's if it is not set."),
    ("NO_COLOR", "Set to anything, it turns colors off."),
    ("COLUMNS", "How wide tables may be; without it, 100 columns on a terminal and any width elsewhere."),
];

fn set(name: &str) -> Option<std::ffi::OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Where the program finds itself.
pub(crate) fn surroundings() -> Surroundings {
    let folder = |name: &str| set(name).map(PathBuf::from);
    let data_home = if cfg!(windows) {
        folder("APPDATA")
    } else if cfg!(target_os = "macos") {
        folder("HOME").map(|home| home.join("Library/Application Support"))
    } else {
        folder("XDG_DATA_HOME").or_else(|| folder("HOME").map(|home| home.join(".local/share")))
    };
    Surroundings { data_home, current_dir: std::env::current_dir().ok(), home: home() }
}

/// The user's own directory.
pub(crate) fn home() -> Option<PathBuf> {
    set(if cfg!(windows) { "USERPROFILE" } else { "HOME" }).map(PathBuf::from)
}

/// Whether a person reads what is printed on stdout.
pub(crate) fn stdout_is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// Whether a person could be typing on stdin.
pub(crate) fn stdin_is_terminal() -> bool {
    std::io::stdin().is_terminal()
}

/// What stdin is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StdinKind {
    Terminal,
    /// A file, which ends by itself.
    File,
    /// A pipe or socket, which ends when its other side does.
    Stream,
    /// The null device, a directory, or nothing.
    Nothing,
}

impl StdinKind {
    /// Returns true for a file or a pipe.
    pub(crate) const fn is_readable(self) -> bool {
        matches!(self, Self::File | Self::Stream)
    }
}

/// Returns what stdin is.
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

/// Opens the keyboard of the person who reads stderr; `None` if there is no such person. Stdin may be redirected.
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

/// Whether a person reads what is printed on stderr.
pub(crate) fn stderr_is_terminal() -> bool {
    std::io::stderr().is_terminal()
}

/// Whether notes on stderr may be dimmed.
pub(crate) fn stderr_has_colours() -> bool {
    std::io::stderr().is_terminal() && set("NO_COLOR").is_none()
}

/// What a table is printed on.
pub(crate) fn page() -> Page {
    let is_terminal = stdout_is_terminal();
    let stated = set("COLUMNS").and_then(|text| text.to_str().and_then(|text| text.parse().ok()));
    let columns = stated.unwrap_or(if is_terminal { 100 } else { usize::MAX });
    Page { columns, cells: if is_terminal { Cells::Escaped } else { Cells::Verbatim } }
}

/// Looks a key or token up by the name of its variable.
pub(crate) fn secret(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// What should be seen of the program, and what is wrong with how that is said.
pub(crate) fn telemetry() -> Settings {
    Settings::read(&secret, "rkat", &out::secrets())
}

/// Makes known which values of the environment are secrets.
pub(crate) fn tell_secrets() {
    all().iter().for_each(|(name, value)| out::secrets().learn_named(name, value));
}

/// The whole environment. MCP servers get the harmless part of it.
pub(crate) fn all() -> std::collections::BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// This program itself.
pub(crate) fn program() -> Option<PathBuf> {
    std::env::current_exe().ok()
}

/// The directory for temporary files.
pub(crate) fn temporary() -> Option<PathBuf> {
    set("TMPDIR").map(PathBuf::from)
}

/// The time zone of this machine.
pub(crate) fn time_zone() -> meerkat::TimeZone {
    meerkat::TimeZone::system()
}

/// The token that clients of `rkat serve` must show.
pub(crate) fn token() -> Option<String> {
    set("RKAT_TOKEN").and_then(|token| token.into_string().ok())
}
