//! Command-line grammar. No other module depends on how arguments are written.

mod hub;
mod mcp;
mod mcp_server;
mod realm;
mod registry;
mod skill;
mod words;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use meerkat::{ApprovalPolicy, Backend, DefaultRealm, FileAccess, HumanDuration, Provider, RealmScope, Usd};
use meerkat_telemetry::{LogFormat, UnknownFormat};

use crate::error::ErrorFormat;
use crate::scope::{Scope, Surface};
pub(crate) use hub::{HUB_ADDRESS, HubArgs, HubCommand, HubListen};
pub(crate) use registry::{PromptArgs, RegisterCommand, RegistryCommand, UnregisterCommand};
pub(crate) use skill::{InstallTarget, SkillCommand};

pub(crate) use mcp::{AddArgs, LoginArgs, McpCommand, McpScope, McpTransport};
pub(crate) use mcp_server::McpServerArgs;
pub(crate) use realm::RealmCommand;
pub(crate) use words::normalize;

/// Run LLM agents with durable sessions.
///
/// If the first word is not a command, it is the prompt: `rkat "write a haiku"` is short for
/// `rkat run "write a haiku"`.
#[derive(Debug, Parser)]
#[command(name = "rkat", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Grouping of usage totals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum UsageBy {
    Model,
    Day,
    Session,
    Label,
}

impl UsageBy {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Day => "day",
            Self::Session => "session",
            Self::Label => "label",
        }
    }
}

fn parse_policy(text: &str) -> Result<ApprovalPolicy, String> {
    serde_json::from_value(text.into()).map_err(|_| "expected `never`, `on-request`, or `always`".to_owned())
}

fn parse_dollars(text: &str) -> Result<Usd, String> {
    let amount = text.trim_start_matches('$').parse().ok().and_then(Usd::from_dollars);
    amount.ok_or_else(|| "expected an amount in US dollars, such as 0.50".to_owned())
}

/// Selection of the realm.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Realm")]
pub(crate) struct ScopeArgs {
    /// Use this realm [default: the current project's].
    #[arg(short, long, global = true, value_name = "ID", conflicts_with = "isolated")]
    realm: Option<String>,
    /// Use a new, private realm.
    #[arg(long, global = true)]
    isolated: bool,
    /// Label this process in config and session records.
    #[arg(long, global = true, value_name = "ID")]
    instance: Option<String>,
    /// Create the realm with this backend (sqlite or memory); an existing realm keeps its own.
    #[arg(long, global = true, value_name = "BACKEND", value_parser = parse_backend)]
    realm_backend: Option<Backend>,
    /// Store realms in this directory.
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) state_root: Option<PathBuf>,
    /// Project directory [default: nearest ancestor with .rkat or .git, else the current directory].
    #[arg(long, global = true, value_name = "DIR")]
    context_root: Option<PathBuf>,
    /// Directory to use instead of $HOME for .rkat/mcp.toml and .rkat/skills.
    #[arg(long, global = true, value_name = "DIR")]
    user_config_root: Option<PathBuf>,
    /// Search this directory for skills first (repeatable).
    #[arg(long, global = true, value_name = "DIR")]
    skill_dir: Vec<PathBuf>,
}

/// Command of `rkat`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a prompt in a new or existing session.
    Run(Box<RunArgs>),
    /// List, show, archive, and interrupt sessions.
    #[command(subcommand)]
    Session(SessionCommand),
    /// Read and change the realm's config.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// List, show, create, back up, restore, and delete realms.
    #[command(subcommand)]
    Realm(RealmCommand),
    /// Serve the realm to MCP clients over HTTP.
    Serve(ServeArgs),
    /// Run the hub that workers connect to over WebSocket.
    Hub(HubArgs),
    /// List, show, serve, check, install, update, remove, and create skills.
    #[command(subcommand)]
    Skill(SkillCommand),
    /// Manage skills and prompts registered by workers, and call worker functions.
    #[command(subcommand)]
    Registry(RegistryCommand),
    /// Fetch blobs: images and output too large for a reply.
    #[command(subcommand)]
    Blob(BlobCommand),
    /// List available models (* marks each provider's default).
    Models {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Generate an image with OpenAI or Gemini.
    Image(Box<ImageArgs>),
    /// Manage the MCP servers agents can use.
    #[command(subcommand)]
    Mcp(McpCommand),
    /// Trust this project: its skills, MCP servers (.rkat/mcp.toml), and hooks (.rkat/config.toml). Edited files must
    /// be trusted again.
    Trust {
        /// Revoke trust.
        #[arg(long)]
        remove: bool,
    },
    /// Show token usage and cost.
    Usage {
        /// Group by model, day (UTC), session, or the value of a label.
        #[arg(long, value_enum, default_value_t = UsageBy::Model)]
        by: UsageBy,
        /// Label to group by, with `--by label`.
        #[arg(value_name = "KEY", required_if_eq("by", "label"))]
        label: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Check keys, store, config, MCP servers, and skills; exit 1 if a check fails. Starts the required MCP servers.
    Doctor {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print this build's capabilities as JSON.
    Capabilities,
    /// Print a completion script for your shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// Arguments of `rkat image`.
#[derive(Debug, Args)]
pub(crate) struct ImageArgs {
    /// Image description.
    pub(crate) prompt: String,
    /// Write the image to FILE; otherwise store it as a blob and print its id.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// The image model.
    #[arg(short, long)]
    pub(crate) model: Option<String>,
    /// Provider: openai or gemini.
    #[arg(short, long, value_name = "PROVIDER")]
    pub(crate) provider: Option<String>,
    /// Size: auto, or WIDTHxHEIGHT such as 1024x1536.
    #[arg(long, value_name = "WxH")]
    pub(crate) size: Option<String>,
    /// Quality: auto, low, medium, or high.
    #[arg(long)]
    pub(crate) quality: Option<String>,
    /// Encoding: auto, png, jpeg, or webp.
    #[arg(long)]
    pub(crate) format: Option<String>,
    /// Provider parameter; VALUE is JSON or a string (repeatable).
    #[arg(long = "param", value_name = "KEY=VALUE")]
    pub(crate) params: Vec<String>,
    /// Print all details of the image as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `rkat serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Address to listen on; port 0 picks a free port and prints it.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    pub(crate) listen: String,
    /// File with the bearer token clients must send [default: $RKAT_TOKEN, else the realm's own token, which is
    /// printed].
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Require no token: every user of this machine can use the server, but cannot change what the config enables.
    /// Loopback addresses only.
    #[arg(long, conflicts_with = "token_file")]
    pub(crate) no_token: bool,
    /// Also accept requests for this host name (repeatable).
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,
    /// Also allow this browser origin, such as `https://app.example.com` (repeatable).
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) allow_origin: Vec<String>,
    /// Hub address; uses the same token. No hub is started if the address is in use.
    #[arg(long, value_name = "ADDRESS", default_value = HUB_ADDRESS)]
    pub(crate) hub: String,
    /// Do not start a hub.
    #[arg(long, conflicts_with = "hub")]
    pub(crate) no_hub: bool,
    /// Form of the log on stderr: `text`, or `json` with one object on each line [default: $RKAT_LOG_FORMAT, else
    /// text].
    #[arg(long, value_name = "FORMAT", value_parser = parse_log_format)]
    pub(crate) log_format: Option<LogFormat>,
}

/// Arguments of `rkat run`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a command-line switch")]
pub(crate) struct RunArgs {
    /// The prompt; read from stdin if omitted or `-`. Otherwise a file or pipe on stdin is sent with it.
    pub(crate) prompt: Option<String>,
    /// Resume a session: id, id prefix, REALM:ID, `last`, or `@N` (N before the last) [default: the last]. Without a
    /// prompt, asks for pending approvals again.
    #[arg(long, value_name = "ID", num_args = 0..=1, require_equals = true, default_missing_value = "last")]
    pub(crate) resume: Option<String>,
    /// The model; `offline` needs no key.
    #[arg(short, long)]
    pub(crate) model: Option<String>,
    /// Model provider.
    #[arg(short, long, value_parser = parse_provider)]
    pub(crate) provider: Option<Provider>,
    /// Replace the system prompt.
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,
    /// Add a section to the system prompt (repeatable).
    #[arg(long, value_name = "TEXT")]
    pub(crate) instructions: Vec<String>,
    /// Maximum output tokens per step.
    #[arg(long, value_name = "N")]
    pub(crate) max_tokens: Option<u32>,
    /// Time limit for the run, such as 90s or 5m.
    #[arg(short = 'd', long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) max_duration: Option<HumanDuration>,
    /// Maximum number of tool calls in the run.
    #[arg(long, value_name = "N")]
    pub(crate) max_tool_calls: Option<u32>,
    /// Maximum total tokens for the run.
    #[arg(long, value_name = "N")]
    pub(crate) max_total_tokens: Option<u64>,
    /// Cost limit in US dollars; has no effect if the model's price is unknown.
    #[arg(long, value_name = "USD", value_parser = parse_dollars)]
    pub(crate) max_cost: Option<Usd>,
    /// Provider parameter; VALUE is JSON or a string (repeatable).
    #[arg(long = "param", value_name = "KEY=VALUE")]
    pub(crate) params: Vec<String>,
    /// Provider parameters as a JSON object.
    #[arg(long, value_name = "JSON")]
    pub(crate) params_json: Option<String>,
    /// Disable the provider's web search.
    #[arg(long)]
    pub(crate) no_web_search: bool,
    /// Load this skill for the run: NAME or NAME@SOURCE (repeatable).
    #[arg(long = "skill", value_name = "NAME")]
    pub(crate) skills: Vec<String>,
    /// Print a structured result that matches this JSON Schema: a file or inline JSON.
    #[arg(long, value_name = "FILE|JSON")]
    pub(crate) schema: Option<String>,
    /// Built-in tools to enable [default: from config].
    #[arg(short = 't', long, value_enum, value_name = "PRESET")]
    pub(crate) tools: Option<ToolPreset>,
    /// Allow only this tool (repeatable).
    #[arg(long, value_name = "NAME")]
    pub(crate) allow_tool: Vec<String>,
    /// Block this tool (repeatable).
    #[arg(long, value_name = "NAME")]
    pub(crate) block_tool: Vec<String>,
    /// When to ask before running a tool: `never`, `on-request` (tools that can modify or delete), or `always`
    /// [default: from config].
    #[arg(long, value_name = "POLICY", value_parser = parse_policy)]
    pub(crate) approvals: Option<ApprovalPolicy>,
    /// With --resume, approve a pending call by id, or `all` (repeatable).
    #[arg(long, value_name = "CALL", requires = "resume")]
    pub(crate) approve: Vec<String>,
    /// With --resume, deny a pending call by id, or `all` (repeatable).
    #[arg(long, value_name = "CALL", requires = "resume")]
    pub(crate) deny: Vec<String>,
    /// Label the new session (repeatable).
    #[arg(long = "label", value_name = "KEY=VALUE")]
    pub(crate) labels: Vec<String>,
    /// Wait for stdin to end, however long it takes, and send it with the prompt.
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
    /// Stream the answer (default on a terminal).
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
    /// Wait for every MCP server to connect or fail before the first step.
    #[arg(long)]
    pub(crate) wait_for_mcp: bool,
}

/// Preset of built-in tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ToolPreset {
    /// No built-in tools and no memory.
    None,
    /// Read and search workspace files; tasks, blobs, the time. Never changes files.
    Safe,
    /// `safe`, plus patches and a sandboxed shell.
    Workspace,
    /// `workspace`, plus memory.
    Full,
}

impl ToolPreset {
    /// Returns `true` if built-in tools are enabled.
    pub(crate) fn builtins(self) -> bool {
        self != Self::None
    }

    /// Returns the access of the file tools; `None` leaves the session's setting unchanged.
    pub(crate) fn files(self) -> Option<FileAccess> {
        match self {
            Self::None => None,
            Self::Safe => Some(FileAccess::ReadOnly),
            Self::Workspace | Self::Full => Some(FileAccess::ReadWrite),
        }
    }

    /// Returns whether memory is enabled, or `None` if the config decides.
    pub(crate) fn memory(self) -> Option<bool> {
        match self {
            Self::None => Some(false),
            Self::Safe | Self::Workspace => None,
            Self::Full => Some(true),
        }
    }

    /// Returns `true` if the shell is enabled.
    pub(crate) fn shell(self) -> bool {
        matches!(self, Self::Workspace | Self::Full)
    }
}

/// Output format of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// As text.
    Text,
    /// As one JSON object.
    Json,
}

/// Subcommand of `rkat session`.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// List sessions, most recently changed first.
    List {
        /// Maximum number of sessions to list.
        #[arg(long, default_value_t = 20)]
        limit: u64,
        /// Number of sessions to skip.
        #[arg(long, default_value_t = 0)]
        offset: u64,
        /// Only list sessions with this label (repeatable).
        #[arg(long = "label", value_name = "KEY=VALUE")]
        labels: Vec<String>,
        /// Include archived sessions.
        #[arg(long)]
        archived: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show a session and its messages.
    Show {
        /// The session: id, id prefix, REALM:ID, `last`, or `@N` (N before the last).
        id: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Archive a session: hide it from lists and prevent resuming; it stays readable.
    Delete {
        /// The session.
        id: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Interrupt a session's active run, in any process.
    Interrupt {
        /// The session.
        id: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// Subcommand of `rkat blob`.
#[derive(Debug, Subcommand)]
pub(crate) enum BlobCommand {
    /// Fetch the raw bytes of a blob.
    Get {
        /// The blob: `sha256:` and 64 hexadecimal digits.
        id: String,
        /// Write to this file [default: stdout].
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Print JSON, with the bytes in base64.
        #[arg(long, conflicts_with = "output")]
        json: bool,
    },
}

/// Subcommand of `rkat config`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print the config, defaults included.
    Get {
        /// Output format.
        #[arg(long, value_enum, default_value_t = ConfigFormat::Toml)]
        format: ConfigFormat,
        /// The same as --format json.
        #[arg(long, conflicts_with = "format")]
        json: bool,
        /// Also print the generation and the realm, as JSON.
        #[arg(long)]
        with_generation: bool,
    },
    /// Replace the config; omitted keys return to their defaults.
    Set(ConfigInput),
    /// Change parts of the config; null removes a key.
    Patch(ConfigInput),
}

/// Input of a config change.
#[derive(Debug, Args)]
pub(crate) struct ConfigInput {
    #[command(flatten)]
    pub(crate) document: ConfigSource,
    /// Fail unless this is still the current generation.
    #[arg(long, value_name = "N")]
    pub(crate) expected_generation: Option<u64>,
}

/// Source of a config document.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct ConfigSource {
    /// A TOML or JSON file; `-` for stdin.
    pub(crate) file: Option<PathBuf>,
    /// The document as JSON.
    #[arg(long, value_name = "JSON")]
    pub(crate) json: Option<String>,
    /// The document as TOML.
    #[arg(long, value_name = "TOML")]
    pub(crate) toml: Option<String>,
}

/// Format of a config document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConfigFormat {
    /// TOML.
    Toml,
    /// JSON.
    Json,
}

impl ScopeArgs {
    /// Returns the realm and the directories.
    pub(crate) fn scope(self) -> Scope {
        let flags = RealmScope {
            realm: self.realm,
            instance: self.instance,
            backend: self.realm_backend,
            state_root: self.state_root,
            context_root: self.context_root,
            user_config_root: self.user_config_root,
        };
        let default_realm = if self.isolated { DefaultRealm::Isolated } else { DefaultRealm::Project };
        Scope { surface: Surface::Rkat, flags, default_realm, skill_dirs: self.skill_dir }
    }
}

impl RunArgs {
    pub(crate) fn output(&self) -> Output {
        if self.json { Output::Json } else { self.output }
    }
}

impl Command {
    /// Returns the format in which an error of the command is printed.
    pub(crate) fn error_format(&self) -> ErrorFormat {
        let json = match self {
            Self::Run(run) => run.output() == Output::Json,
            Self::Session(
                SessionCommand::List { json, .. }
                | SessionCommand::Show { json, .. }
                | SessionCommand::Delete { json, .. }
                | SessionCommand::Interrupt { json, .. },
            )
            | Self::Realm(
                RealmCommand::List { json }
                | RealmCommand::Show { json, .. }
                | RealmCommand::Backup { json, .. }
                | RealmCommand::Restore { json, .. },
            )
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

fn parse_log_format(text: &str) -> Result<LogFormat, String> {
    text.parse().map_err(|error: UnknownFormat| error.to_string())
}

fn parse_duration(text: &str) -> Result<HumanDuration, String> {
    text.parse().map_err(|error: meerkat::ParseDurationError| error.to_string())
}

fn parse_provider(text: &str) -> Result<Provider, String> {
    let provider = Provider::ALL.into_iter().find(|provider| provider.as_str() == text);
    provider.ok_or_else(|| {
        let names: Vec<_> = Provider::ALL.iter().map(|provider| provider.as_str()).collect();
        format!("unknown provider `{text}`; expected one of {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};
    use meerkat_testkit::Generator;

    use super::{Cli, normalize};

    #[test]
    fn grammar_passes_clap_checks() {
        Cli::command().debug_assert();
    }

    /// Adds the words that lead to each command, and the options of each command.
    fn collect(command: &clap::Command, path: &[String], found: &mut Vec<(Vec<String>, Vec<String>)>) {
        let long = command.get_arguments().filter_map(|arg| Some(format!("--{}", arg.get_long()?)));
        let short = command.get_arguments().filter_map(|arg| Some(format!("-{}", arg.get_short()?)));
        found.push((path.to_vec(), long.chain(short).collect()));
        for inner in command.get_subcommands() {
            let path: Vec<_> = path.iter().cloned().chain([inner.get_name().to_owned()]).collect();
            collect(inner, &path, found);
        }
    }

    #[test]
    fn generated_command_lines_are_parsed_or_rejected() {
        let mut commands = Vec::new();
        collect(&Cli::command(), &["rkat".to_owned()], &mut commands);
        let values =
            ["", "-", "--", "x", "-1", "é\u{1b}", "a=b", "99999999999999999999", "--x=y", "5m", "last"];
        let mut generator = Generator::new(7, |_| Vec::new());
        for _ in 0..500 {
            let (path, options) = &commands[generator.below(commands.len())];
            let mut line = path.clone();
            for _ in 0..generator.below(6) {
                let word = generator.below(options.len() + values.len());
                line.push(
                    options.get(word).map_or_else(|| values[word - options.len()], String::as_str).to_owned(),
                );
            }
            let parsed = Cli::try_parse_from(normalize(line.iter().map(Into::into).collect()));
            assert!(parsed.err().is_none_or(|error| !error.to_string().is_empty()), "{line:?}");
        }
    }
}
