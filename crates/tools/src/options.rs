//! Options of a toolbox.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::tz::TimeZone;

/// Directories and environment for the tools.
#[derive(Debug, Clone)]
pub struct ToolboxOptions {
    /// The workspace; if `None`, there are no file tools and no shell.
    pub workspace: Option<PathBuf>,
    /// The user's home directory, which contains secrets.
    pub home: Option<PathBuf>,
    /// The directory for temporary files; `/tmp` by default.
    pub temp_dir: Option<PathBuf>,
    /// Additional directories to hide from commands.
    pub hidden_dirs: Vec<PathBuf>,
    /// The environment; commands receive it without secrets.
    pub environment: BTreeMap<String, String>,
    /// The current executable, which must call [`supervise`](meerkat_process::supervise) first. If `None`, there is no
    /// shell, and a command hook ends only with its process group.
    pub supervisor: Option<PathBuf>,
    /// Determines the time zone of `datetime` on demand: looking through all zones takes a while.
    pub time_zone: fn() -> TimeZone,
}

impl Default for ToolboxOptions {
    fn default() -> Self {
        Self {
            workspace: None,
            home: None,
            temp_dir: None,
            hidden_dirs: Vec::new(),
            environment: BTreeMap::new(),
            supervisor: None,
            time_zone: || TimeZone::UTC,
        }
    }
}
