//! The command line of `rkat-mcp`.

use std::path::PathBuf;

use clap::Parser;
use meerkat::{Backend, RealmScope};

/// Meerkat as an MCP server: durable agent sessions as tools.
///
/// Speaks MCP on stdin and stdout; logs go to stderr. Point your MCP client at this command, with no
/// arguments for a realm of its own, or with --realm NAME to keep sessions across restarts.
#[derive(Debug, Parser)]
#[command(name = "rkat-mcp", version, max_term_width = 100)]
pub(crate) struct Args {
    /// Work in the realm of this name; its sessions stay after a restart.
    #[arg(long, value_name = "ID", conflicts_with = "isolated")]
    realm: Option<String>,
    /// Work in a new realm (the default without --realm).
    #[arg(long)]
    isolated: bool,
    /// Call this process so in the config and in sessions.
    #[arg(long, value_name = "ID")]
    instance: Option<String>,
    /// Create the realm with this backend; an existing realm keeps its own.
    #[arg(long, value_name = "BACKEND", value_parser = parse_backend)]
    realm_backend: Option<Backend>,
    /// Keep realms in this folder.
    #[arg(long, value_name = "DIR")]
    state_root: Option<PathBuf>,
    /// The project folder.
    #[arg(long, value_name = "DIR")]
    context_root: Option<PathBuf>,
    /// The folder of the user's own files; nothing is read from it yet.
    #[arg(long, value_name = "DIR")]
    user_config_root: Option<PathBuf>,
    /// Accepted for older set-ups: paths are always shown.
    #[arg(long)]
    expose_paths: bool,
}

impl Args {
    pub(crate) fn scope(self) -> RealmScope {
        RealmScope {
            realm: self.realm,
            instance: self.instance,
            backend: self.realm_backend,
            state_root: self.state_root,
            context_root: self.context_root,
        }
    }
}

fn parse_backend(text: &str) -> Result<Backend, String> {
    text.parse().map_err(|error: meerkat::UnknownBackend| error.to_string())
}
