//! Runs LLM agents in durable sessions.
//!
//! A [`Runtime`] belongs to one realm: a directory with a store, or memory. [`Runtime::sessions`] gives the
//! [`SessionService`], which creates sessions, runs prompts, and reads, interrupts, and archives them.
//! [`operations`] is the table of operations behind every surface (MCP and the command line).
//!
//! The library crates do not print, read the environment, or panic.

mod builder;
mod capabilities;
mod clock;
mod coded;
mod config;
mod error;
mod events;
mod help;
mod hooks;
mod json;
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

pub use builder::{RuntimeOptions, capabilities};
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
pub use error::{Error, SessionRef};
pub use events::{EventSink, StreamError, describe_progress};
#[cfg(feature = "mcp")]
pub use hooks::{HookFiles, HookFilesError, LoadedHooks};
pub use hooks::{HookOverlay, HooksError};
pub use meerkat_contracts::{ImageInput, ImageReply, SkillKey};
pub use meerkat_core::run::{Completion, LastRun, Outcome, Pending, RunEnd, RunInput, RunReport};
pub use meerkat_core::{
    AgentEvent, Approval, ApprovalPolicy, ApprovalRequest, BlobId, BudgetLimits, BudgetType, Clock, Content,
    Decision, ErrorKind, EventEnvelope, Hook, HookEntry, HookFailure, HookInvocation, HookOutput,
    HookRuntime, Message, Model, OutputSchema, Provider, RealmId, Redactor, RunId, SessionId, TerminalCause,
    Timestamp, Tool, ToolCall, ToolImpact, ToolOutput, ToolSource, TraceContext, Usage, Usd, escape_line,
    escape_text,
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
#[cfg(feature = "session-store")]
pub use meerkat_store::check as check_database;
pub use meerkat_store::{
    ArchivedFilter, Backend, Blob, Force, Realm, RealmInfo, RealmManifest, RealmOptions, RealmOrigin,
    RealmPaths, SessionQuery, UnknownBackend, create_private_dirs,
};
pub use meerkat_tools::{ApprovalScope, FileAccess, TimeZone, ToolboxOptions};
pub use models::ModelsError;
pub use records::RecordError;
pub use request_error::RequestError;
pub use runtime::Runtime;
pub use schema::InvalidSchema;
pub use scope::{DefaultRealm, RealmScope, SystemDirs};
pub use secrets::{SecretSource, api_key_variables};
pub use sessions::{
    Approver, HistoryPage, NewSessionOptions, RunControl, RunHandle, RunRequest, RunResult, SessionService,
    SessionView, Target, TurnOptions, UnreadableSession,
};
#[cfg(feature = "skills")]
pub use tools::{BundledSkills, Skills, SkillsOptions};
#[cfg(feature = "registry")]
pub use tools::{HostedHub, HubEndpoint, RealmRegistry, RegistryContents};
#[cfg(feature = "mcp")]
pub use tools::{
    LoadedServerFiles, McpServers, McpServersOptions, NoticeSink, ProjectTrust, ServerEnvironment,
    ServerFiles, ServerFilesError, TokenDir,
};
pub use tools::{ToolOverlay, ToolsError};
