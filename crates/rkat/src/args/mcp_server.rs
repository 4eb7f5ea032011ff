//! Command line of `rkat-mcp`.

use std::path::PathBuf;

use clap::Parser;
use meerkat::{Backend, DefaultRealm, RealmScope};
use meerkat_telemetry::LogFormat;

use super::{parse_backend, parse_log_format};
use crate::scope::{Scope, Surface};

/// Meerkat as an MCP server: durable agent sessions as tools.
///
/// Speaks MCP on stdin and stdout and logs to stderr. Point your MCP client at this command: without arguments for
/// a private realm, or with --realm NAME to keep sessions across restarts. The server exits when the client closes
/// stdin or exits; active runs are interrupted and can be resumed.
///
/// With --http, it serves any number of clients at /mcp instead, until it receives a signal.
#[derive(Debug, Parser)]
#[command(name = "rkat-mcp", version, max_term_width = 100)]
pub(crate) struct McpServerArgs {
    /// Use this realm; its sessions persist across restarts.
    #[arg(long, value_name = "ID", conflicts_with = "isolated")]
    realm: Option<String>,
    /// Use a new, private realm (the default without --realm).
    #[arg(long)]
    isolated: bool,
    /// Label this process in config and session records.
    #[arg(long, value_name = "ID")]
    instance: Option<String>,
    /// Create the realm with this backend; an existing realm keeps its own.
    #[arg(long, value_name = "BACKEND", value_parser = parse_backend)]
    realm_backend: Option<Backend>,
    /// Store realms in this directory.
    #[arg(long, value_name = "DIR")]
    state_root: Option<PathBuf>,
    /// Project directory, for its skills and, after `rkat trust`, the MCP servers in its .rkat/mcp.toml
    /// [default: no project].
    #[arg(long, value_name = "DIR")]
    context_root: Option<PathBuf>,
    /// Directory to use instead of $HOME for .rkat/mcp.toml and .rkat/skills.
    #[arg(long, value_name = "DIR")]
    user_config_root: Option<PathBuf>,
    /// Search this directory for skills first (repeatable).
    #[arg(long, value_name = "DIR")]
    skill_dir: Vec<PathBuf>,
    /// Serve HTTP on this address, such as 127.0.0.1:8000, instead of stdio; port 0 picks a free port.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) http: Option<String>,
    /// File with the bearer token clients must send [default: $RKAT_TOKEN, or the realm's own token, which is
    /// printed].
    #[arg(long, value_name = "FILE", requires = "http")]
    pub(crate) token_file: Option<PathBuf>,
    /// Require no token: every user of this machine can use the server, but cannot change what the config enables.
    /// Loopback addresses only.
    #[arg(long, requires = "http", conflicts_with = "token_file")]
    pub(crate) no_token: bool,
    /// Also accept requests for this host name (repeatable).
    #[arg(long, value_name = "HOST", requires = "http")]
    pub(crate) allow_host: Vec<String>,
    /// Also allow this browser origin, such as `https://app.example.com` (repeatable).
    #[arg(long, value_name = "ORIGIN", requires = "http")]
    pub(crate) allow_origin: Vec<String>,
    /// Form of the log on stderr: `text`, or `json` with one object on each line [default: $RKAT_LOG_FORMAT, else
    /// text].
    #[arg(long, value_name = "FORMAT", value_parser = parse_log_format)]
    pub(crate) log_format: Option<LogFormat>,
    /// Show file paths in the config; accepted but ignored, because they are always shown.
    #[arg(long)]
    expose_paths: bool,
}

impl McpServerArgs {
    /// Returns the realm and the directories.
    pub(crate) fn scope(&self) -> Scope {
        let flags = RealmScope {
            realm: self.realm.clone(),
            instance: self.instance.clone(),
            backend: self.realm_backend,
            state_root: self.state_root.clone(),
            context_root: self.context_root.clone(),
            user_config_root: self.user_config_root.clone(),
        };
        let skill_dirs = self.skill_dir.clone();
        Scope { surface: Surface::RkatMcp, flags, default_realm: DefaultRealm::Isolated, skill_dirs }
    }
}
