//! The arguments of `rkat hub`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Where programs find the hub unless they are told otherwise.
pub(crate) const HUB_ADDRESS: &str = "127.0.0.1:49134";

/// Serve programs that offer functions, skills and prompts.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct HubArgs {
    #[command(flatten)]
    pub(crate) listen: HubListen,
    #[command(subcommand)]
    pub(crate) command: Option<HubCommand>,
}

/// Where the hub listens, and who may do what.
#[derive(Debug, Args)]
pub(crate) struct HubListen {
    /// The address; port 0 takes a free one, and stderr says which.
    #[arg(long, value_name = "ADDRESS", default_value = HUB_ADDRESS)]
    pub(crate) listen: String,
    /// Read the bearer token that every worker must show from this file [default: RKAT_TOKEN, or else the realm's own
    /// token, which workers of the same user on this machine need not show]
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Ask workers for no token: every user of this machine can use the hub. Only for addresses of this machine
    #[arg(long, conflicts_with_all = ["token_file", "guarded_token_file"])]
    pub(crate) no_token: bool,
    /// Accept web pages of this origin, such as http://localhost:5173 (repeatable)
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) allow_origin: Vec<String>,
    /// Listen on this address too, for programs that may only do what the rules of --rbac say.
    #[arg(long, value_name = "ADDRESS", requires = "rbac")]
    pub(crate) guarded: Option<String>,
    /// The rules of the guarded address: a JSON file with `auth_function_id`, `expose_functions` and the like.
    #[arg(long, value_name = "FILE", requires = "guarded")]
    pub(crate) rbac: Option<PathBuf>,
    /// Read the bearer token of the guarded address from this file [default: another token of the realm's own]
    #[arg(long, value_name = "FILE", requires = "guarded")]
    pub(crate) guarded_token_file: Option<PathBuf>,
}

/// What else to do with the hub.
#[derive(Debug, Subcommand)]
pub(crate) enum HubCommand {
    /// Say whether a hub can be reached, which workers are connected and which functions there are.
    Status {
        /// Where the hub is, such as ws://127.0.0.1:49134; without it, where the realm's hub says it is.
        #[arg(long)]
        url: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

impl HubArgs {
    /// Whether an error is printed as JSON.
    pub(crate) fn json(&self) -> bool {
        matches!(self.command, Some(HubCommand::Status { json: true, .. }))
    }
}
