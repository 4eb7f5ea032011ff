//! The grammar of the command line. Nothing past this file knows how arguments are written.

mod hub;
mod mcp;
mod registry;
mod skill;
mod words;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use meerkat::{ApprovalPolicy, Backend, FileAccess, Provider, RealmScope, Span, Unnamed, Usd};

use crate::error::ErrorFormat;
pub(crate) use hub::{HUB_ADDRESS, HubArgs, HubCommand, HubListen};
pub(crate) use registry::{PromptArgs, RegisterCommand, RegistryCommand, UnregisterCommand};
pub(crate) use skill::{SkillCommand, SkillPlace};

pub(crate) use mcp::{AddArgs, LoginArgs, McpCommand, McpScope, McpTransport};
pub(crate) use words::normalize;

/// Run LLM agents with durable sessions.
///
/// A first word that is not a command is a prompt: `rkat "write a haiku"` is `rkat run "write a haiku"`.
#[derive(Debug, Parser)]
#[command(name = "rkat", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What usage is summed up by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum UsageBy {
    Model,
    Day,
    Session,
}

impl UsageBy {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Day => "day",
            Self::Session => "session",
        }
    }
}

fn parse_policy(text: &str) -> Result<ApprovalPolicy, String> {
    serde_json::from_value(text.into()).map_err(|_| "write never, on-request or always".to_owned())
}

fn parse_dollars(text: &str) -> Result<Usd, String> {
    let amount = text.trim_start_matches('$').parse().ok().and_then(Usd::from_dollars);
    amount
        .filter(|amount| !amount.is_zero())
        .ok_or_else(|| "write an amount of dollars such as 0.50".to_owned())
}

/// Which realm to work in.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Realm")]
pub(crate) struct ScopeArgs {
    /// Work in the realm of this name; without it, in the realm of this directory.
    #[arg(short, long, global = true, value_name = "ID", conflicts_with = "isolated")]
    pub(crate) realm: Option<String>,
    /// Work in a new realm that nobody else uses.
    #[arg(long, global = true)]
    pub(crate) isolated: bool,
    /// Call this process so in the config and in sessions.
    #[arg(long, global = true, value_name = "ID")]
    pub(crate) instance: Option<String>,
    /// Create the realm with this backend (sqlite or memory); an existing realm keeps its own.
    #[arg(long, global = true, value_name = "BACKEND", value_parser = parse_backend)]
    pub(crate) realm_backend: Option<Backend>,
    /// Keep realms in this directory.
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) state_root: Option<PathBuf>,
    /// Project directory [default: the nearest one, from here upward, with .rkat or .git; else this one].
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) context_root: Option<PathBuf>,
    /// The directory of the user's own files, in place of the home directory: MCP servers are in its .rkat/mcp.toml, skills in its
    /// .rkat/skills.
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) user_config_root: Option<PathBuf>,
    /// Look for skills in this directory before the usual ones; may be repeated.
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) skill_dir: Vec<PathBuf>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a prompt, in a new session or in an earlier one.
    Run(Box<RunArgs>),
    /// List, show, archive and interrupt sessions.
    #[command(subcommand)]
    Session(SessionCommand),
    /// Read and change the realm's config.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// List, show, create and delete realms.
    #[command(subcommand)]
    Realm(RealmCommand),
    /// Serve the realm to MCP clients over HTTP, at /mcp, until a signal ends it.
    Serve(ServeArgs),
    /// Serve programs over WebSocket, for their functions, skills and prompts, until a signal ends it.
    Hub(HubArgs),
    /// List, show, serve, check, install, update, remove and write skills.
    #[command(subcommand)]
    Skill(SkillCommand),
    /// List, show, register and remove skills and prompts that programs share at run time, and call their functions.
    #[command(subcommand)]
    Registry(RegistryCommand),
    /// Fetch blobs: images, and what was too long for a reply.
    #[command(subcommand)]
    Blob(BlobCommand),
    /// List the models there are; * marks the default of a provider.
    Models {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Make an image with an image model of OpenAI or Gemini.
    Image(Box<ImageArgs>),
    /// Add, list, show, remove and test MCP servers, whose tools agents use.
    #[command(subcommand)]
    Mcp(McpCommand),
    /// Trust this directory: its skills are no longer marked as foreign, and runs start the MCP servers of its
    /// .rkat/mcp.toml, and use the hooks of its .rkat/config.toml, as they are now.
    Trust {
        /// Take the trust back.
        #[arg(long)]
        remove: bool,
    },
    /// Sum up what sessions used and cost.
    Usage {
        /// One line for each model, each day of last change, or each session.
        #[arg(long, value_enum, default_value_t = UsageBy::Model)]
        by: UsageBy,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Look for what is wrong: keys, the store, the config, MCP servers, skills; exits with 1 if anything is.
    Doctor {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Say what this build can do, as JSON.
    Capabilities,
    /// Print a completion script for your shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// Make an image.
#[derive(Debug, Args)]
pub(crate) struct ImageArgs {
    /// What the image shall show.
    pub(crate) prompt: String,
    /// Write the image to this file; without it, the image stays in the realm's store and its id is printed.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// The image model.
    #[arg(short, long)]
    pub(crate) model: Option<String>,
    /// Who makes it: openai or gemini.
    #[arg(short, long, value_name = "PROVIDER")]
    pub(crate) provider: Option<String>,
    /// How large it shall be: auto, or pixels such as 1024x1536.
    #[arg(long, value_name = "WxH")]
    pub(crate) size: Option<String>,
    /// How well it shall be done: auto, low, medium or high.
    #[arg(long)]
    pub(crate) quality: Option<String>,
    /// How it shall be encoded: auto, png, jpeg or webp.
    #[arg(long)]
    pub(crate) format: Option<String>,
    /// A parameter for the provider; the value is JSON or a string; may be repeated.
    #[arg(long = "param", value_name = "KEY=VALUE")]
    pub(crate) params: Vec<String>,
    /// Print everything that is known of the image, as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Serve MCP clients.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The address; port 0 takes a free one, and stderr says which.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    pub(crate) listen: String,
    /// Read the bearer token that clients must show from this file [default: RKAT_TOKEN, or else the realm's own token,
    /// which is printed].
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Ask clients for no token: every user of this machine can use the server. Such clients cannot change what the
    /// config enables. Only for addresses of this machine.
    #[arg(long, conflicts_with = "token_file")]
    pub(crate) no_token: bool,
    /// Accept requests for this host name too; may be repeated.
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,
    /// Accept pages of this origin too, such as `https://app.example.com`; may be repeated.
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) allow_origin: Vec<String>,
    /// Where programs find the realm's hub; the token is the same. If the address is taken, there is none here.
    #[arg(long, value_name = "ADDRESS", default_value = HUB_ADDRESS)]
    pub(crate) hub: String,
    /// Serve no hub.
    #[arg(long, conflicts_with = "hub")]
    pub(crate) no_hub: bool,
}

/// Run a prompt.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub(crate) struct RunArgs {
    /// What the agent is asked to do; `-` or nothing reads it from stdin. A file or pipe on stdin goes with it.
    pub(crate) prompt: Option<String>,
    /// Continue a session: its id, the beginning of it, REALM:ID, `last`, or `@N` for the Nth before the last. Without
    /// a session, the last one; without a prompt, approvals that are pending are asked for again.
    #[arg(long, value_name = "ID", num_args = 0..=1, require_equals = true, default_missing_value = "last")]
    pub(crate) resume: Option<String>,
    /// The model; `offline` needs no key.
    #[arg(short, long)]
    pub(crate) model: Option<String>,
    /// Who serves the model.
    #[arg(short, long, value_parser = parse_provider)]
    pub(crate) provider: Option<Provider>,
    /// Replace the system prompt.
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,
    /// Add a section to the system prompt; may be repeated.
    #[arg(long, value_name = "TEXT")]
    pub(crate) instructions: Vec<String>,
    /// How many tokens the model may write in one step.
    #[arg(long, value_name = "N")]
    pub(crate) max_tokens: Option<u32>,
    /// How long the run may take, for example 90s or 5m.
    #[arg(short = 'd', long, value_name = "TIME", value_parser = parse_span)]
    pub(crate) max_duration: Option<Span>,
    /// How many tool calls the run may make.
    #[arg(long, value_name = "N")]
    pub(crate) max_tool_calls: Option<u32>,
    /// How many tokens the run may use in all.
    #[arg(long, value_name = "N")]
    pub(crate) max_total_tokens: Option<u64>,
    /// How many US dollars the run may cost, as far as the model's price is known.
    #[arg(long, value_name = "USD", value_parser = parse_dollars)]
    pub(crate) max_cost: Option<Usd>,
    /// A parameter for the provider; the value is JSON or a string; may be repeated.
    #[arg(long = "param", value_name = "KEY=VALUE")]
    pub(crate) params: Vec<String>,
    /// Parameters for the provider as a JSON object.
    #[arg(long, value_name = "JSON")]
    pub(crate) params_json: Option<String>,
    /// Keep the model's provider from searching the web.
    #[arg(long)]
    pub(crate) no_web_search: bool,
    /// Give the agent this skill for the run: NAME, or NAME@SOURCE; may be repeated.
    #[arg(long = "skill", value_name = "NAME")]
    pub(crate) skills: Vec<String>,
    /// Print a structured result that fits this JSON Schema: a file, or the schema itself.
    #[arg(long, value_name = "FILE|JSON")]
    pub(crate) schema: Option<String>,
    /// Which built-in tools the agent has; the config decides if it is left out.
    #[arg(short = 't', long, value_enum, value_name = "PRESET")]
    pub(crate) tools: Option<ToolPreset>,
    /// Let the agent use this tool and no others; may be repeated.
    #[arg(long, value_name = "NAME")]
    pub(crate) allow_tool: Vec<String>,
    /// Keep the agent from using this tool; may be repeated.
    #[arg(long, value_name = "NAME")]
    pub(crate) block_tool: Vec<String>,
    /// Ask before tools are run: `never`, `on-request` (those that may change or delete things) or `always`; the config
    /// decides if it is left out.
    #[arg(long, value_name = "POLICY", value_parser = parse_policy)]
    pub(crate) approvals: Option<ApprovalPolicy>,
    /// With --resume, approve a call that waits: its id, or `all`; may be repeated.
    #[arg(long, value_name = "CALL", requires = "resume")]
    pub(crate) approve: Vec<String>,
    /// With --resume, deny a call that waits: its id, or `all`; may be repeated.
    #[arg(long, value_name = "CALL", requires = "resume")]
    pub(crate) deny: Vec<String>,
    /// Label the new session; may be repeated.
    #[arg(long = "label", value_name = "KEY=VALUE")]
    pub(crate) labels: Vec<String>,
    /// Wait for the end of stdin, however long it takes, and send it with the prompt.
    #[arg(long)]
    pub(crate) stdin: bool,
    /// Do not read stdin.
    #[arg(long, conflicts_with = "stdin")]
    pub(crate) no_stdin: bool,
    /// Print the answer as text, or everything as JSON.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub(crate) output: Output,
    /// The same as --output json.
    #[arg(long, conflicts_with = "output")]
    pub(crate) json: bool,
    /// Print the answer as it comes (the default on a terminal).
    #[arg(short, long, conflicts_with_all = ["no_stream", "json"])]
    pub(crate) stream: bool,
    /// Print the answer when it is complete.
    #[arg(long)]
    pub(crate) no_stream: bool,
    /// Print the run's events on stderr.
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Print nothing on stderr but errors.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Start the run when every MCP server is connected or has failed; else their tools come as they are ready.
    #[arg(long)]
    pub(crate) wait_for_mcp: bool,
}

/// Which built-in tools an agent has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ToolPreset {
    /// None.
    None,
    /// Read and search files of the workspace; tasks, blobs, the time. No file is changed.
    Safe,
    /// These, patches, and a shell in its sandbox.
    Workspace,
    /// Everything there is.
    Full,
}

impl ToolPreset {
    /// Says whether there are built-in tools.
    pub(crate) fn builtins(self) -> bool {
        self != Self::None
    }

    /// Returns what the file tools may do; a session without tools keeps what it had.
    pub(crate) fn files(self) -> Option<FileAccess> {
        match self {
            Self::None => None,
            Self::Safe => Some(FileAccess::ReadOnly),
            Self::Workspace | Self::Full => Some(FileAccess::ReadWrite),
        }
    }

    /// Says whether there is memory; otherwise the config does.
    pub(crate) fn memory(self) -> Option<bool> {
        match self {
            Self::None => Some(false),
            Self::Safe | Self::Workspace => None,
            Self::Full => Some(true),
        }
    }

    /// Says whether there is a shell.
    pub(crate) fn shell(self) -> bool {
        matches!(self, Self::Workspace | Self::Full)
    }
}

/// How a result is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// As text.
    Text,
    /// As one JSON object.
    Json,
}

/// What to do with sessions.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// List sessions, the most recently changed first.
    List {
        /// How many to list.
        #[arg(long, default_value_t = 20)]
        limit: u64,
        /// How many to pass over.
        #[arg(long, default_value_t = 0)]
        offset: u64,
        /// Only sessions with this label; may be repeated.
        #[arg(long = "label", value_name = "KEY=VALUE")]
        labels: Vec<String>,
        /// List archived sessions too.
        #[arg(long)]
        archived: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show a session and its messages.
    Show {
        /// The session: its id, the beginning of it, REALM:ID, `last`, or `@N` for the Nth before the last.
        id: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Archive a session: it is hidden and cannot be continued, but can still be shown.
    Delete {
        /// The session.
        id: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Stop the run in flight on a session, in whatever process it is.
    Interrupt {
        /// The session.
        id: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// What to do with blobs.
#[derive(Debug, Subcommand)]
pub(crate) enum BlobCommand {
    /// Fetch a blob: its bytes, as they are.
    Get {
        /// The blob: `sha256:` and 64 hexadecimal digits.
        id: String,
        /// Write to this file; without it, to stdout.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Print JSON, with the bytes in base64.
        #[arg(long, conflicts_with = "output")]
        json: bool,
    },
}

/// What to do with the config.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print the config, defaults included.
    Get {
        /// In which form.
        #[arg(long, value_enum, default_value_t = ConfigFormat::Toml)]
        format: ConfigFormat,
        /// The same as --format json.
        #[arg(long, conflicts_with = "format")]
        json: bool,
        /// Print the generation and the realm with it, as JSON.
        #[arg(long)]
        with_generation: bool,
    },
    /// Replace the config; what is left out takes its default.
    Set(ConfigInput),
    /// Change parts of the config; null removes a key.
    Patch(ConfigInput),
}

/// A change of the config.
#[derive(Debug, Args)]
pub(crate) struct ConfigInput {
    #[command(flatten)]
    pub(crate) document: Document,
    /// Refuse unless this is still the current generation.
    #[arg(long, value_name = "N")]
    pub(crate) expected_generation: Option<u64>,
}

/// A config document, in one of the ways to give it.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Document {
    /// A TOML or JSON file; `-` for stdin.
    pub(crate) file: Option<PathBuf>,
    /// The document as JSON.
    #[arg(long, value_name = "JSON")]
    pub(crate) json: Option<String>,
    /// The document as TOML.
    #[arg(long, value_name = "TOML")]
    pub(crate) toml: Option<String>,
}

/// The form of a config document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConfigFormat {
    /// TOML.
    Toml,
    /// JSON.
    Json,
}

/// What to do with realms.
#[derive(Debug, Subcommand)]
pub(crate) enum RealmCommand {
    /// Print the id of the realm in use here.
    Current,
    /// List realms.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show a realm.
    Show {
        /// The realm.
        id: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Create a realm.
    Create {
        /// Its id.
        id: String,
        /// Its backend.
        #[arg(long, value_parser = parse_backend)]
        backend: Option<Backend>,
    },
    /// Delete a realm with all its sessions, for good.
    Delete {
        /// The realm.
        id: String,
        /// Delete it even if a process uses it.
        #[arg(long)]
        force: bool,
    },
    /// Delete unused realms of directories and of single processes, with their sessions; lists them without --force.
    Prune {
        /// Only realms of single processes, never those of directories.
        #[arg(long)]
        isolated_only: bool,
        /// Only realms older than this.
        #[arg(long, value_name = "HOURS", default_value_t = 24)]
        older_than_hours: u64,
        /// Really delete; without it, only say what would be deleted.
        #[arg(long)]
        force: bool,
    },
}

impl ScopeArgs {
    /// Says which realm is meant, and which to use when none is named.
    pub(crate) fn scope(&self) -> (RealmScope, Unnamed) {
        let scope = RealmScope {
            realm: self.realm.clone(),
            instance: self.instance.clone(),
            backend: self.realm_backend,
            state_root: self.state_root.clone(),
            context_root: self.context_root.clone(),
            user_config_root: self.user_config_root.clone(),
        };
        (scope, if self.isolated { Unnamed::Isolated } else { Unnamed::Workspace })
    }
}

impl RunArgs {
    pub(crate) fn output(&self) -> Output {
        if self.json { Output::Json } else { self.output }
    }
}

impl Command {
    /// Says how an error of the command is printed.
    pub(crate) fn error_format(&self) -> ErrorFormat {
        let json = match self {
            Self::Run(run) => run.output() == Output::Json,
            Self::Session(
                SessionCommand::List { json, .. }
                | SessionCommand::Show { json, .. }
                | SessionCommand::Delete { json, .. }
                | SessionCommand::Interrupt { json, .. },
            )
            | Self::Realm(RealmCommand::List { json } | RealmCommand::Show { json, .. })
            | Self::Config(ConfigCommand::Get { json, .. })
            | Self::Blob(BlobCommand::Get { json, .. })
            | Self::Mcp(
                McpCommand::List { json, .. } | McpCommand::Get { json, .. } | McpCommand::Test { json, .. },
            )
            | Self::Skill(
                SkillCommand::List { json, .. }
                | SkillCommand::Show { json, .. }
                | SkillCommand::Lint { json, .. },
            )
            | Self::Usage { json, .. }
            | Self::Doctor { json }
            | Self::Models { json } => *json,
            Self::Image(args) => args.json,
            Self::Registry(command) => command.json(),
            Self::Hub(args) => args.json(),
            Self::Config(_)
            | Self::Realm(_)
            | Self::Mcp(_)
            | Self::Skill(_)
            | Self::Trust { .. }
            | Self::Serve(_)
            | Self::Completions { .. } => false,
            Self::Capabilities => true,
        };
        if json { ErrorFormat::Json } else { ErrorFormat::Text }
    }
}

fn parse_backend(text: &str) -> Result<Backend, String> {
    text.parse().map_err(|error: meerkat::UnknownBackend| error.to_string())
}

fn parse_span(text: &str) -> Result<Span, String> {
    text.parse().map_err(|error: meerkat::SpanError| error.to_string())
}

fn parse_provider(text: &str) -> Result<Provider, String> {
    let found = Provider::ALL.into_iter().find(|provider| provider.as_str() == text);
    found.ok_or_else(|| {
        let names: Vec<_> = Provider::ALL.iter().map(|provider| provider.as_str()).collect();
        format!("`{text}` is not a provider; there are {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::Cli;

    #[test]
    fn the_grammar_is_sound() {
        Cli::command().debug_assert();
    }
}
