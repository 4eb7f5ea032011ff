//! The grammar of `rkat mcp`.

use clap::{Args, Subcommand, ValueEnum};

/// Subcommand of `rkat mcp`.
#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Add a server.
    Add(Box<AddArgs>),
    /// List the servers of the project and the user; secrets are masked.
    List {
        /// Start the servers and show their status and tool names; exit 1 if a required one is not ready, or none is.
        #[arg(long)]
        live: bool,
        /// Only list servers from this file.
        #[arg(long, value_enum)]
        scope: Option<McpScope>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show a server; secrets are masked.
    Get {
        /// The server.
        name: String,
        /// File to read [default: the one whose entry is in effect].
        #[arg(long, value_enum)]
        scope: Option<McpScope>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Remove a server.
    Remove {
        /// The server.
        name: String,
        /// File to remove it from; required if both files define the server.
        #[arg(long, value_enum)]
        scope: Option<McpScope>,
    },
    /// Log in to a server with OAuth. Prints the URL to open; opens a browser only on a terminal.
    Login(LoginArgs),
    /// Delete the stored login of a server.
    Logout {
        /// The server.
        name: String,
    },
    /// Start a server and show its tools, or why it fails.
    Test {
        /// The server.
        name: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// Arguments of `rkat mcp login`.
#[derive(Debug, Args)]
pub(crate) struct LoginArgs {
    /// The server.
    pub(crate) name: String,
    /// Scope to request (repeatable) [default: what the server requires].
    #[arg(long = "oauth-scope", value_name = "SCOPE")]
    pub(crate) oauth_scopes: Vec<String>,
    /// OAuth client id, if pre-registered; its secret is read from RKAT_MCP_CLIENT_SECRET.
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// Only print the URL to open.
    #[arg(long)]
    pub(crate) no_browser: bool,
    /// Seconds to wait for the login to finish.
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub(crate) timeout: u64,
}

/// Arguments of `rkat mcp add`.
#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// Name of the server.
    pub(crate) name: String,
    /// Transport [default: inferred].
    #[arg(short, long, value_enum)]
    pub(crate) transport: Option<McpTransport>,
    /// File to add it to: the project's or the user's.
    #[arg(short, long, value_enum, default_value_t = McpScope::Project)]
    pub(crate) scope: McpScope,
    /// URL of the server.
    #[arg(short, long)]
    pub(crate) url: Option<String>,
    /// Header sent with every request; ${NAME} expands from the current environment (repeatable).
    #[arg(short = 'H', long = "header", value_name = "NAME:VALUE")]
    pub(crate) headers: Vec<String>,
    /// Environment variable; ${NAME} expands from the current environment (repeatable).
    #[arg(short = 'e', long = "env", value_name = "KEY=VALUE")]
    pub(crate) env: Vec<String>,
    /// Command and its arguments.
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// Transport of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum McpTransport {
    /// A command.
    Stdio,
    /// Streamable HTTP.
    Http,
    /// HTTP with server-sent events.
    Sse,
}

/// MCP config file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum McpScope {
    /// .rkat/mcp.toml of the project.
    #[value(alias = "local")]
    Project,
    /// ~/.rkat/mcp.toml.
    User,
}
