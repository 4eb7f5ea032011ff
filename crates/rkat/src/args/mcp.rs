//! The grammar of `rkat mcp`.

use clap::{Args, Subcommand, ValueEnum};

/// What to do with MCP servers.
#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Add a server.
    Add(Box<AddArgs>),
    /// List the servers of the project and the user; secrets are masked.
    List {
        /// Start them, and show how they are doing and what their tools are called.
        #[arg(long)]
        live: bool,
        /// Only those of this file.
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
        /// In this file; without it, the one that is used.
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
        /// From this file; needed if both have one of that name.
        #[arg(long, value_enum)]
        scope: Option<McpScope>,
    },
    /// Log in to a server with OAuth. The address to open is printed; a browser is opened only on a terminal.
    Login(LoginArgs),
    /// Forget the login at a server.
    Logout {
        /// The server.
        name: String,
    },
    /// Start a server, and show what it offers or why it fails.
    Test {
        /// The server.
        name: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// Log in to a server.
#[derive(Debug, Args)]
pub(crate) struct LoginArgs {
    /// The server.
    pub(crate) name: String,
    /// Ask for this scope; may be repeated. Without it, for what the server says it needs.
    #[arg(long = "oauth-scope", value_name = "SCOPE")]
    pub(crate) oauth_scopes: Vec<String>,
    /// Be this client, which was registered with the server by hand; its secret, if it has one, is read from
    /// RKAT_MCP_CLIENT_SECRET.
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// Only print the address to open.
    #[arg(long)]
    pub(crate) no_browser: bool,
    /// How long to wait for you.
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub(crate) timeout: u64,
}

/// Add a server.
#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// Its name.
    pub(crate) name: String,
    /// How it is reached; without it, as the rest says.
    #[arg(short, long, value_enum)]
    pub(crate) transport: Option<McpTransport>,
    /// Into which file: the project's or the user's.
    #[arg(short, long, value_enum, default_value_t = McpScope::Project)]
    pub(crate) scope: McpScope,
    /// Where it is.
    #[arg(short, long)]
    pub(crate) url: Option<String>,
    /// A header of every request, where ${NAME} is a variable; may be repeated.
    #[arg(short = 'H', long = "header", value_name = "NAME:VALUE")]
    pub(crate) headers: Vec<String>,
    /// A variable of its environment, where ${NAME} is a variable of ours; may be repeated.
    #[arg(short = 'e', long = "env", value_name = "KEY=VALUE")]
    pub(crate) env: Vec<String>,
    /// The program and its arguments.
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// A way to reach a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum McpTransport {
    /// A program.
    Stdio,
    /// Streamable HTTP.
    Http,
    /// HTTP with server-sent events.
    Sse,
}

/// A file of servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum McpScope {
    /// .rkat/mcp.toml of this directory.
    #[value(alias = "local")]
    Project,
    /// ~/.rkat/mcp.toml.
    User,
}
