//! Runs LLM agents in durable sessions.
//!
//! A [`Runtime`] belongs to one realm: a directory with a store, or memory. [`Runtime::sessions`] gives the
//! [`SessionService`], which creates sessions, runs prompts, and reads, interrupts, and archives them.
//! [`ops`] is the table of operations behind every surface (MCP and the command line).
//!
//! The library crates do not print, read the environment, or panic.

mod agent_skills;
mod builtins;
mod capabilities;
mod clock;
mod config;
mod error;
mod events;
mod features;
mod help;
mod hooks;
mod images;
#[cfg(feature = "memory-store-session")]
mod memory;
mod models;
pub mod ops;
mod params;
mod pattern;
mod project;
mod prompt;
mod providers;
#[cfg(feature = "registry")]
mod realm_registry;
mod runtime;
mod scope;
#[cfg(feature = "mcp")]
mod servers;
mod session;
mod structured;
pub mod token;
mod truncate;
mod unreadable;

pub use agent_skills::Skills;
#[cfg(feature = "skills")]
pub use agent_skills::{BundledSkills, SkillsOptions};
pub use capabilities::capabilities;
pub use clock::SystemClock;
pub use config::{
    AgentConfig, ApiStyle, ApprovalsConfig, BudgetConfig, CallTimeout, CompactionConfig, Config,
    ConfigAccess, ConfigChange, ConfigService, CurrentConfig, GitRefType, GoogleSearchConfig, HooksConfig,
    HumanDuration, LimitsConfig, MemoryConfig, MemoryScope, ModelsConfig, ParseDurationError, ProviderConfig,
    ProviderToolsConfig, ProvidersConfig, RegistryConfig, RegistryScopes, RetryConfig, SandboxMode,
    SecurityMode, SelfHostedConfig, SelfHostedModel, SelfHostedServer, SelfHostedTransport, ShellConfig,
    SkillIdentity, SkillRemap, SkillRepository, SkillsConfig, ToolsConfig, WebSearchConfig,
};
pub use error::{Error, SessionRef};
pub use events::describe_progress;
#[cfg(feature = "mcp")]
pub use hooks::{HookFiles, HookFilesError, LoadedHooks};
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
pub use providers::{SecretSource, api_key_variables};
#[cfg(feature = "registry")]
pub use realm_registry::{HostedHub, HubEndpoint, RealmRegistry, RegistryContents};
pub use runtime::{Runtime, RuntimeOptions};
pub use scope::{DefaultRealm, RealmScope, SystemDirs};
#[cfg(feature = "mcp")]
pub use servers::{
    LoadedServerFiles, McpServers, McpServersOptions, NoticeSink, ProjectTrust, ServerEnvironment,
    ServerFiles, ServerFilesError, TokenDir,
};
pub use session::{
    EventSink, HistoryPage, HookOverlay, NewSessionOptions, RunControl, RunResult, SessionService,
    SessionView, ToolOverlay, TurnOptions, UnreadableSession,
};
