//! The config document: all keys with their defaults. Unknown keys are rejected.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use meerkat_contracts::MAX_OUTPUT_RETRIES;
use meerkat_core::{BudgetLimits, Price, Redactor, RetryPolicy, Usd};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::approvals::ApprovalsConfig;
use super::duration::{CallTimeout, HumanDuration};
use super::hooks::HooksConfig;
use super::limits::{LimitsConfig, MIN_REPLY_BYTES};
use super::memory::MemoryConfig;
use super::providers::{ModelsConfig, ProviderToolsConfig, ProvidersConfig, SelfHostedConfig};
use super::registry::RegistryConfig;
use super::shell::ShellConfig;
use super::skills::SkillsConfig;

/// A realm's config.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Agent behavior.
    pub agent: AgentConfig,
    /// Hard limit on output tokens of any model per step.
    pub max_tokens: Option<u32>,
    /// Default budget of a run.
    pub budget: BudgetConfig,
    /// Hard limits on runs and reply size.
    pub limits: LimitsConfig,
    /// Retries of failed model calls.
    pub retry: RetryConfig,
    /// Tools.
    pub tools: ToolsConfig,
    /// Approval of tool calls.
    pub approvals: ApprovalsConfig,
    /// Execution of shell commands.
    pub shell: ShellConfig,
    /// Skills.
    pub skills: SkillsConfig,
    /// Skills and prompts registered by workers.
    pub registry: RegistryConfig,
    /// Hooks.
    pub hooks: HooksConfig,
    /// Compaction of long conversations.
    pub compaction: CompactionConfig,
    /// Memory of messages removed by compaction.
    pub memory: MemoryConfig,
    /// Price per million tokens in US dollars, by model id; overrides built-in prices.
    pub prices: BTreeMap<String, Price>,
    /// The default model of each provider.
    pub models: ModelsConfig,
    /// Connections to providers.
    pub providers: ProvidersConfig,
    /// Provider-run tools that models may use.
    pub provider_tools: ProviderToolsConfig,
    /// Self-hosted servers and their models.
    pub self_hosted: SelfHostedConfig,
}

/// Agent behavior.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AgentConfig {
    /// The default model of sessions. If not set, it is the default model of the first provider with a key, or the
    /// offline model without one.
    #[serde(serialize_with = "or_default")]
    pub model: Option<String>,
    /// Maximum output tokens per step.
    pub max_tokens_per_turn: u32,
    /// Replaces the default system prompt.
    pub system_prompt: Option<String>,
    /// Absolute path of a file whose text replaces the default system prompt, if `system_prompt` is not set.
    pub system_prompt_file: Option<PathBuf>,
    /// Text appended to every system prompt.
    pub tool_instructions: Option<String>,
    /// Sampling temperature, for models that support it.
    pub temperature: Option<f32>,
    /// Fraction of a budget at which to warn.
    pub budget_warning_threshold: f64,
    /// Maximum number of model calls of a run, including those for summaries and structured output; 100 if not set.
    pub max_turns: Option<u32>,
    /// Provider parameters.
    pub provider_params: Option<Value>,
    /// The default output schema of runs.
    pub output_schema: Option<Value>,
    /// Replaces the default prompt that requests the structured output.
    pub extraction_prompt: Option<String>,
    /// Retries when structured output fails validation, at most 100.
    #[schemars(range(max = 100))]
    pub structured_output_retries: u32,
}

/// Default budget of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BudgetConfig {
    /// Maximum input and output tokens.
    pub max_tokens: Option<u64>,
    /// Maximum duration.
    pub max_duration: Option<HumanDuration>,
    /// Maximum number of tool calls.
    pub max_tool_calls: Option<u32>,
    /// Maximum cost in US dollars, if the model's price is known.
    pub max_cost_usd: Option<Usd>,
}

/// Retries of failed model calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RetryConfig {
    /// Maximum number of retries.
    pub max_retries: u32,
    /// Delay before the first retry.
    pub initial_delay: HumanDuration,
    /// Maximum delay.
    pub max_delay: HumanDuration,
    /// Factor by which each delay grows.
    pub multiplier: f64,
    /// Time after which a model call that receives nothing has failed, or `disabled` for none; the model's own limit if
    /// not set.
    pub call_timeout: Option<CallTimeout>,
    /// Maximum duration of one model call; none if not set.
    pub max_call_duration: Option<HumanDuration>,
}

/// Tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of the public document")]
pub struct ToolsConfig {
    /// Whether built-in tools are enabled.
    pub builtins_enabled: bool,
    /// Whether shell tools are enabled.
    pub shell_enabled: bool,
    /// Whether messages between agents are enabled; not implemented yet.
    pub comms_enabled: bool,
    /// Whether mobs, teams of agents, are enabled; not implemented yet.
    pub mob_enabled: bool,
    /// Whether schedules are enabled; not implemented yet.
    pub schedule_enabled: bool,
    /// Whether the work graph is enabled; not implemented yet.
    pub workgraph_enabled: bool,
    /// Default timeout of a tool.
    pub default_timeout: HumanDuration,
    /// Timeouts by tool name.
    pub tool_timeouts: BTreeMap<String, HumanDuration>,
    /// Maximum number of tools of one step that run at once.
    pub max_concurrent: usize,
    /// Additional secrets that file tools and sandboxed commands must not read: paths that start with `~/` or `/`, or
    /// names of files in the workspace, in which `*` matches any characters. A leading `!` marks a path as not secret.
    /// Only the owner can change it.
    pub secrets: Vec<String>,
}

/// Compaction of long conversations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CompactionConfig {
    /// Maximum number of tokens before compaction; a smaller context window lowers it.
    pub auto_compact_threshold: u64,
    /// Number of recent message groups to keep unchanged.
    pub recent_turn_budget: usize,
    /// Maximum length of the summary, in tokens.
    pub max_summary_tokens: u32,
    /// Minimum number of steps between two compactions.
    pub min_turns_between_compactions: u64,
}

/// The default model of sessions, if its provider has a key.
const DEFAULT_MODEL: &str = "claude-opus-4-7";

/// Serializes the default model of sessions, even if it is not set.
#[expect(clippy::ref_option, reason = "signature required by serde")]
fn or_default<S: Serializer>(model: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(model.as_deref().unwrap_or(DEFAULT_MODEL))
}

impl Default for AgentConfig {
    fn default() -> Self {
        Self {
            model: None,
            max_tokens_per_turn: 16_384,
            system_prompt: None,
            system_prompt_file: None,
            tool_instructions: None,
            temperature: None,
            budget_warning_threshold: 0.8,
            max_turns: None,
            provider_params: None,
            output_schema: None,
            extraction_prompt: None,
            structured_output_retries: 2,
        }
    }
}

impl Default for RetryConfig {
    fn default() -> Self {
        let policy = RetryPolicy::default();
        Self {
            max_retries: policy.max_retries,
            initial_delay: HumanDuration(policy.initial_delay),
            max_delay: HumanDuration(policy.max_delay),
            multiplier: policy.multiplier,
            call_timeout: None,
            max_call_duration: None,
        }
    }
}

impl Default for ToolsConfig {
    fn default() -> Self {
        Self {
            builtins_enabled: false,
            shell_enabled: false,
            comms_enabled: false,
            mob_enabled: false,
            schedule_enabled: true,
            workgraph_enabled: false,
            default_timeout: HumanDuration(Duration::from_secs(600)),
            tool_timeouts: BTreeMap::new(),
            max_concurrent: 10,
            secrets: Vec::new(),
        }
    }
}

impl Default for CompactionConfig {
    fn default() -> Self {
        Self {
            auto_compact_threshold: 100_000,
            recent_turn_budget: 4,
            max_summary_tokens: 4096,
            min_turns_between_compactions: 3,
        }
    }
}

impl BudgetConfig {
    /// Returns the limits of a run.
    #[must_use]
    pub fn limits(&self) -> BudgetLimits {
        BudgetLimits {
            max_tokens: self.max_tokens,
            max_duration_secs: self.max_duration.map(|span| span.0.as_secs().max(1)),
            max_tool_calls: self.max_tool_calls,
            max_cost_usd: self.max_cost_usd,
        }
    }
}

impl RetryConfig {
    /// Returns the retry policy.
    #[must_use]
    pub fn policy(&self) -> RetryPolicy {
        RetryPolicy {
            max_retries: self.max_retries,
            initial_delay: self.initial_delay.0,
            max_delay: self.max_delay.0,
            multiplier: self.multiplier,
        }
    }
}

impl ToolsConfig {
    /// Returns the timeout of a tool.
    #[must_use]
    pub fn timeout(&self, tool: &str) -> Duration {
        self.tool_timeouts.get(tool).copied().unwrap_or(self.default_timeout).0
    }
}

impl Config {
    /// Registers the document's secrets with the redactor.
    pub(crate) fn register_secrets(&self, redactor: &Redactor) {
        for server in self.self_hosted.servers.values() {
            server.bearer_token.iter().for_each(|token| redactor.add(token));
            redactor.add_url(&server.base_url);
        }
        self.hooks.entries.iter().for_each(|entry| entry.register_secrets(redactor));
    }

    /// Returns `true` if the config key that gates a capability is set.
    #[must_use]
    pub fn is_enabled(&self, key: &str) -> bool {
        match key {
            "tools.builtins_enabled" => self.tools.builtins_enabled,
            "tools.shell_enabled" => self.tools.shell_enabled,
            "tools.schedule_enabled" => self.tools.schedule_enabled,
            "tools.workgraph_enabled" => self.tools.workgraph_enabled,
            "skills.enabled" => self.skills.enabled,
            "registry.enabled" => self.registry.enabled,
            "memory.enabled" => self.memory.enabled,
            _ => false,
        }
    }

    /// Returns the key of the first invalid value, and the rule that it violates.
    pub(super) fn find_error(&self) -> Option<(&'static str, &'static str)> {
        const POSITIVE: &str = "must be greater than 0";
        let rules = [
            (
                self.agent.model.as_ref().is_some_and(|model| model.trim().is_empty()),
                "agent.model",
                "must not be empty",
            ),
            (self.agent.max_tokens_per_turn == 0, "agent.max_tokens_per_turn", POSITIVE),
            (self.max_tokens == Some(0), "max_tokens", POSITIVE),
            (
                self.agent.system_prompt_file.as_ref().is_some_and(|path| !path.is_absolute()),
                "agent.system_prompt_file",
                "must be an absolute path",
            ),
            (self.agent.max_turns == Some(0), "agent.max_turns", POSITIVE),
            (
                self.agent.structured_output_retries > MAX_OUTPUT_RETRIES,
                "agent.structured_output_retries",
                "must be at most 100",
            ),
            (self.budget.max_tokens == Some(0), "budget.max_tokens", POSITIVE),
            (self.budget.max_duration.is_some_and(|span| span.0.is_zero()), "budget.max_duration", POSITIVE),
            (self.limits.budget == Some(0), "limits.budget", POSITIVE),
            (self.limits.max_duration.is_some_and(|span| span.0.is_zero()), "limits.max_duration", POSITIVE),
            (self.limits.max_sessions == Some(0), "limits.max_sessions", POSITIVE),
            (
                self.limits.max_reply_bytes < MIN_REPLY_BYTES,
                "limits.max_reply_bytes",
                "must be at least 1024",
            ),
            (
                !(1.0..=1000.0).contains(&self.retry.multiplier),
                "retry.multiplier",
                "must be between 1 and 1000",
            ),
            (
                self.retry.call_timeout == Some(CallTimeout::After(HumanDuration(Duration::ZERO))),
                "retry.call_timeout",
                POSITIVE,
            ),
            (
                self.retry.max_call_duration.is_some_and(|span| span.0.is_zero()),
                "retry.max_call_duration",
                POSITIVE,
            ),
            (self.hooks.default_timeout_ms == 0, "hooks.default_timeout_ms", POSITIVE),
            (self.hooks.payload_max_bytes == 0, "hooks.payload_max_bytes", POSITIVE),
            (self.tools.max_concurrent == 0, "tools.max_concurrent", POSITIVE),
            (self.shell.timeout_secs == 0, "shell.timeout_secs", POSITIVE),
            (self.approvals.timeout.0.is_zero(), "approvals.timeout", POSITIVE),
            (self.compaction.auto_compact_threshold == 0, "compaction.auto_compact_threshold", POSITIVE),
            (self.compaction.recent_turn_budget == 0, "compaction.recent_turn_budget", POSITIVE),
            (self.compaction.max_summary_tokens == 0, "compaction.max_summary_tokens", POSITIVE),
            (
                self.compaction.min_turns_between_compactions == 0,
                "compaction.min_turns_between_compactions",
                POSITIVE,
            ),
            (
                !(0.0..=1.0).contains(&self.agent.budget_warning_threshold),
                "agent.budget_warning_threshold",
                "must be between 0 and 1",
            ),
        ];
        rules.into_iter().find(|(is_violated, _, _)| *is_violated).map(|(_, key, rule)| (key, rule))
    }
}
