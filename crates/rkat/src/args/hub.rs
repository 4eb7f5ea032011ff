//! The arguments of `rkat hub`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Default address of the hub.
pub(crate) const HUB_ADDRESS: &str = "127.0.0.1:49134";

/// Arguments of `rkat hub`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct HubArgs {
    #[command(flatten)]
    pub(crate) listen: HubListen,
    #[command(subcommand)]
    pub(crate) command: Option<HubCommand>,
}

/// Addresses and access rules of the hub.
#[derive(Debug, Args)]
pub(crate) struct HubListen {
    /// Address to listen on; port 0 picks a free port and prints it.
    #[arg(long, value_name = "ADDRESS", default_value = HUB_ADDRESS)]
    pub(crate) listen: String,
    /// File with the bearer token workers must send [default: $RKAT_TOKEN, else the realm's own token, which workers of
    /// the same user on this machine need not send].
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Require no token: every user of this machine can use the hub. Loopback addresses only.
    #[arg(long, conflicts_with_all = ["token_file", "guarded_token_file"])]
    pub(crate) no_token: bool,
    /// Also allow this browser origin, such as http://localhost:5173 (repeatable).
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) allow_origin: Vec<String>,
    /// Also listen on this address, for workers restricted by the rules of --rbac.
    #[arg(long, value_name = "ADDRESS", requires = "rbac")]
    pub(crate) guarded: Option<String>,
    /// JSON file with the rules of the guarded address, such as `auth_function_id` and `expose_functions`.
    #[arg(long, value_name = "FILE", requires = "guarded")]
    pub(crate) rbac: Option<PathBuf>,
    /// File with the bearer token of the guarded address [default: a separate token of the realm].
    #[arg(long, value_name = "FILE", requires = "guarded")]
    pub(crate) guarded_token_file: Option<PathBuf>,
}

/// Subcommand of `rkat hub`.
#[derive(Debug, Subcommand)]
pub(crate) enum HubCommand {
    /// Show whether the hub is up, its workers, and their functions.
    Status {
        /// URL of the hub, such as ws://127.0.0.1:49134 [default: as published by the realm's hub].
        #[arg(long)]
        url: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

impl HubArgs {
    /// Returns `true` if errors are printed as JSON.
    pub(crate) fn json(&self) -> bool {
        matches!(self.command, Some(HubCommand::Status { json: true, .. }))
    }
}
