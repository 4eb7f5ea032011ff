//! Runs LLM agents in durable sessions.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), meerkat::Error> {
//! let runtime = meerkat::Runtime::builder().build()?;
//! println!("{}", runtime.ask("say hello").await?.text);
//! # Ok(())
//! # }
//! ```
//!
//! Without an API key, agents use the offline model, which needs no network. [`RuntimeBuilder`] sets keys, tools, the
//! config, and the directory in which sessions are stored.
//!
//! - [`Runtime::ask`] runs a prompt in a new [`Session`], and [`Session::prompt`] runs the next one. A [`Prompt`] is
//!   awaited for its [`Answer`]; [`Prompt::output`] requests a value of your type instead of text, and [`Prompt::start`]
//!   returns a [`RunHandle`] with the run's [`Events`].
//! - [`Tool::from_fn`] makes a tool from a function.
//! - [`SessionService`] lists, reads, interrupts, and archives sessions; [`SessionService::run`] runs a request with every
//!   option.
//! - [`Error`] has a stable [`ErrorKind`], and names the session, which can be resumed.
//! - [`ports`] has the traits for your own tools, models, hooks, and clocks.
//! - [`operations`] is the table of operations behind every surface: MCP and the command line.
//!
//! The library crates do not print, read the environment, or panic. `examples` has complete programs.

mod builder;
mod capabilities;
mod clock;
mod coded;
mod config;
mod conversation;
mod error;
mod events;
mod help;
mod hooks;
mod models;
pub mod operations;
mod panics;
mod project;
mod records;
mod request_error;
mod runtime;
mod schema;
mod scope;
mod secrets;
mod sessions;
mod text;
pub mod token;
mod tools;

pub use builder::{RuntimeBuilder, RuntimeOptions, capabilities};
pub use clock::SystemClock;
pub use coded::Coded;
pub use config::{
    AgentConfig, ApiStyle, ApprovalsConfig, BudgetConfig, CallTimeout, CompactionConfig, Config,
    ConfigAccess, ConfigChange, ConfigError, ConfigService, CurrentConfig, GitRefType, GoogleSearchConfig,
    HooksConfig, HumanDuration, LimitsConfig, MemoryConfig, MemoryScope, ModelsConfig, ParseDurationError,
    ProviderConfig, ProviderToolsConfig, ProvidersConfig, RegistryConfig, RegistryScopes, RetryConfig,
    SandboxMode, SecurityMode, SelfHostedConfig, SelfHostedModel, SelfHostedServer, SelfHostedTransport,
    ShellConfig, SkillIdentity, SkillRemap, SkillRepository, SkillsConfig, ToolsConfig, WebSearchConfig,
};
pub use conversation::{OutputPrompt, Prompt, Session};
pub use error::{Error, SessionRef, StopReason, Stopped};
pub use events::{EventQueue, EventSink, Events, StreamError, describe_progress};
#[cfg(feature = "mcp")]
pub use hooks::{HookFiles, HookFilesError, LoadedHooks};
pub use hooks::{HookOverlay, HooksError};
pub use meerkat_contracts::{ImageInput, ImageReply, SkillKey};
pub use meerkat_core::run::{
    Completion, ExtractionError, Failure, InputError, LastRun, Outcome, Pending, RunEnd, RunInput, RunReport,
};
pub use meerkat_core::{
    AgentEvent, Approval, ApprovalPolicy, ApprovalRequest, AssistantImage, BlobId, BudgetLimits, BudgetType,
    Clock, Content, ContentBlock, Decision, ErrorClass, ErrorKind, EventEnvelope, Hook, HookEntry,
    HookFailure, HookInvocation, HookOutput, HookRuntime, IdError, Message, Model, OutputSchema, Provider,
    RealmId, Redactor, RunId, SchemaError, SchemaWarning, SessionId, TerminalCause, Timestamp, ToolCall,
    ToolFailure, ToolImpact, ToolOutput, ToolResult, ToolSource, TraceContext, Usage, Usd, escape_line,
    escape_text, excerpt, excerpt_message,
};
/// Server of the iii protocol.
#[cfg(feature = "registry")]
pub use meerkat_hub as hub;
/// MCP client.
#[cfg(feature = "mcp")]
pub use meerkat_mcp as mcp;
/// The connected MCP servers of a runtime; the alias is part of the public contract. [`McpServers::shared`] returns
/// one; `wait_until_ready(timeout)` waits like `rkat run --wait-for-mcp`.
#[cfg(feature = "mcp")]
pub use meerkat_mcp::ServerSet as McpRouterAdapter;
pub use meerkat_process::{can_mask_secrets, check_sandbox, is_same_user, supervise};
pub use meerkat_providers::ProfileEntry;
/// Registry of skills, prompts, and functions.
#[cfg(feature = "registry")]
pub use meerkat_registry as registry;
/// Catalog of skills.
#[cfg(feature = "skills")]
pub use meerkat_skills as skills;
#[cfg(feature = "registry")]
pub use meerkat_store::EndpointFile;
pub use meerkat_store::{
    ArchivedFilter, Backend, Blob, Force, Realm, RealmInfo, RealmManifest, RealmOptions, RealmOrigin,
    RealmPaths, RealmUser, SessionQuery, UnknownBackend, UsageRow, create_private_dirs,
};
#[cfg(feature = "session-store")]
pub use meerkat_store::{Backup, Kinship, adopt_realm, check as check_database};
pub use meerkat_tools::{ApprovalScope, FileAccess, TimeZone, ToolboxOptions};
pub use models::ModelsError;
pub use panics::contain;
pub use records::RecordError;
pub use request_error::RequestError;
pub use runtime::{Health, Runtime};
pub use schema::InvalidSchema;
pub use scope::{DefaultRealm, RealmScope, SystemDirs};
pub use secrets::{SecretSource, api_key_variables};
pub use sessions::{
    Answer, Approver, HistoryPage, NewSessionOptions, RunControl, RunHandle, RunRequest, RunResult,
    SessionService, SessionView, Target, TurnOptions, UnreadableSession,
};
/// Token that interrupts a run.
pub use tokio_util::sync::CancellationToken;
#[cfg(feature = "skills")]
pub use tools::{BundledSkills, Skills, SkillsOptions};
#[cfg(feature = "registry")]
pub use tools::{HostedHub, HubEndpoint, RealmRegistry, RegistryContents};
pub use tools::{IntoToolOutput, Tool, ToolOverlay, ToolsError};
#[cfg(feature = "mcp")]
pub use tools::{
    LoadedServerFiles, McpServers, McpServersOptions, NoticeSink, ProjectTrust, ServerEnvironment,
    ServerFiles, ServerFilesError, TokenDir,
};

pub mod ports {
    //! Traits for your own tools, models, hooks, and clocks, and the types that they use.

    pub use meerkat_core::{
        AssistantBlock, BoxFuture, Clock, Delta, DeltaSink, Hook, HookFailure, HookInvocation, HookOutput,
        Invocation, Model, ModelError, ModelErrorKind, ModelInfo, ModelProfile, ModelRequest, ModelResponse,
        ResponseStatus, Tool, ToolConfigChange, ToolDef, ToolSource,
    };
}
