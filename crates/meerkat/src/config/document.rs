//! The config document: every key there is, with its default. Unknown keys are refused.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use meerkat_core::{BudgetLimits, Price, Redactor, RetryPolicy, Usd};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::approvals::ApprovalsConfig;
use super::hooks::HooksConfig;
use super::limits::{LEAST_REPLY_BYTES, LimitsConfig};
use super::memory::MemoryConfig;
use super::providers::{ModelsConfig, ProviderToolsConfig, ProvidersConfig, SelfHostedConfig};
use super::registry::RegistryConfig;
use super::shell::ShellConfig;
use super::skills::SkillsConfig;
use super::span::{CallTimeout, Span};

/// A realm's config.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// How agents behave.
    pub agent: AgentConfig,
    /// How many tokens any model may write in one step at most, whatever a run asks for.
    pub max_tokens: Option<u32>,
    /// What every run may use up, unless it says otherwise.
    pub budget: BudgetConfig,
    /// What may be used up at most, and how long replies may be.
    pub limits: LimitsConfig,
    /// How failing model calls are retried.
    pub retry: RetryConfig,
    /// Tools.
    pub tools: ToolsConfig,
    /// Which tool calls somebody must approve.
    pub approvals: ApprovalsConfig,
    /// How shell commands are run.
    pub shell: ShellConfig,
    /// Skills.
    pub skills: SkillsConfig,
    /// Skills and prompts that other programs register.
    pub registry: RegistryConfig,
    /// Hooks.
    pub hooks: HooksConfig,
    /// When long conversations are shortened.
    pub compaction: CompactionConfig,
    /// What agents remember of what is no longer shown to them.
    pub memory: MemoryConfig,
    /// What a million tokens of a model cost, in US dollars, by the model's id; it comes before what is known of it.
    pub prices: BTreeMap<String, Price>,
    /// The default model of each provider.
    pub models: ModelsConfig,
    /// Where providers are reached.
    pub providers: ProvidersConfig,
    /// The tools of providers that models may use.
    pub provider_tools: ProviderToolsConfig,
    /// Servers of the user's own.
    pub self_hosted: SelfHostedConfig,
}

/// How agents behave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AgentConfig {
    /// The model of sessions that name none. If not set, the first provider there is a key for chooses, and
    /// without a key the offline model serves.
    #[serde(serialize_with = "or_default")]
    pub model: Option<String>,
    /// How many tokens a model may write in one step.
    pub max_tokens_per_turn: u32,
    /// Replaces the default system prompt.
    pub system_prompt: Option<String>,
    /// A file whose text replaces the default system prompt, by its full path, if `system_prompt` is not set.
    pub system_prompt_file: Option<PathBuf>,
    /// Added at the end of every system prompt.
    pub tool_instructions: Option<String>,
    /// How freely models choose words, where they can be told.
    pub temperature: Option<f32>,
    /// At which share of a budget to warn.
    pub budget_warning_threshold: f64,
    /// How many steps a run may take; 100 if not set.
    pub max_turns: Option<u32>,
    /// Parameters for the provider.
    pub provider_params: Option<Value>,
    /// The output schema of runs that name none.
    pub output_schema: Option<Value>,
    /// How to ask for a structured output, instead of in the usual words.
    pub extraction_prompt: Option<String>,
    /// How often to ask again for a structured output that does not fit.
    pub structured_output_retries: u32,
}

/// What a run may use up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BudgetConfig {
    /// Tokens read and written.
    pub max_tokens: Option<u64>,
    /// Time from its start.
    pub max_duration: Option<Span>,
    /// Tool calls.
    pub max_tool_calls: Option<u32>,
    /// US dollars, as far as the model's price is known.
    pub max_cost_usd: Option<Usd>,
}

/// How failing model calls are retried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RetryConfig {
    /// Retries after the first try.
    pub max_retries: u32,
    /// The first delay.
    pub initial_delay: Span,
    /// The longest delay.
    pub max_delay: Span,
    /// What each delay is multiplied by.
    pub multiplier: f64,
    /// How long one model call may take, or `disabled` for as long as it likes; the model's own limit if not
    /// set.
    pub call_timeout: Option<CallTimeout>,
}

/// Tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of the public document")]
pub struct ToolsConfig {
    /// Built-in tools.
    pub builtins_enabled: bool,
    /// Shell tools.
    pub shell_enabled: bool,
    /// Messages between agents.
    pub comms_enabled: bool,
    /// Mobs.
    pub mob_enabled: bool,
    /// Schedules.
    pub schedule_enabled: bool,
    /// The work graph.
    pub workgraph_enabled: bool,
    /// How long a tool may take.
    pub default_timeout: Span,
    /// How long tools of these names may take.
    pub tool_timeouts: BTreeMap<String, Span>,
    /// How many tools of one step run at once.
    pub max_concurrent: usize,
    /// What file tools and sandboxed commands must not read besides the usual: paths that begin with `~/` or `/`, or names
    /// of files in the workspace, in which `*` stands for any letters. One with `!` before it is no secret. Only the
    /// owner changes it.
    pub secrets: Vec<String>,
}

/// When long conversations are shortened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CompactionConfig {
    /// At how many tokens, at most; a smaller window lowers it.
    pub auto_compact_threshold: u64,
    /// How many groups of messages stay as they are.
    pub recent_turn_budget: usize,
    /// How long the summary may be, in tokens.
    pub max_summary_tokens: u32,
    /// How many steps must lie between two compactions.
    pub min_turns_between_compactions: u64,
}

/// The model of sessions that name none, where a key for it is there.
const DEFAULT_MODEL: &str = "claude-opus-4-7";

/// Shows the model of sessions that name none, set or not.
#[expect(clippy::ref_option, reason = "serde calls it so")]
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
            initial_delay: Span(policy.initial_delay),
            max_delay: Span(policy.max_delay),
            multiplier: policy.multiplier,
            call_timeout: None,
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
            default_timeout: Span(Duration::from_secs(600)),
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
    /// Returns the policy.
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
    /// Returns how long a tool may take.
    #[must_use]
    pub fn timeout(&self, tool: &str) -> Duration {
        self.tool_timeouts.get(tool).copied().unwrap_or(self.default_timeout).0
    }
}

impl Config {
    /// Tells what the document has in secret.
    pub(crate) fn tell_secrets(&self, redactor: &Redactor) {
        for server in self.self_hosted.servers.values() {
            server.bearer_token.iter().for_each(|token| redactor.learn(token));
            redactor.learn_url(&server.base_url);
        }
        self.hooks.entries.iter().for_each(|entry| entry.tell_secrets(redactor));
    }

    /// Says whether a capability's gate is open.
    #[must_use]
    pub fn gate(&self, key: &str) -> bool {
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

    /// Returns the key and the rule of the first value that makes no sense.
    pub(super) fn fault(&self) -> Option<(&'static str, &'static str)> {
        const POSITIVE: &str = "must be greater than 0";
        let faults = [
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
                "must be a full path",
            ),
            (self.agent.max_turns == Some(0), "agent.max_turns", POSITIVE),
            (self.budget.max_tokens == Some(0), "budget.max_tokens", POSITIVE),
            (self.budget.max_duration.is_some_and(|span| span.0.is_zero()), "budget.max_duration", POSITIVE),
            (self.limits.budget == Some(0), "limits.budget", POSITIVE),
            (self.limits.max_duration.is_some_and(|span| span.0.is_zero()), "limits.max_duration", POSITIVE),
            (self.limits.max_sessions == Some(0), "limits.max_sessions", POSITIVE),
            (
                self.limits.max_reply_bytes < LEAST_REPLY_BYTES,
                "limits.max_reply_bytes",
                "must be at least 1024",
            ),
            (
                !(1.0..=1000.0).contains(&self.retry.multiplier),
                "retry.multiplier",
                "must lie between 1 and 1000",
            ),
            (
                self.retry.call_timeout == Some(CallTimeout::After(Span(Duration::ZERO))),
                "retry.call_timeout",
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
                "must lie between 0 and 1",
            ),
        ];
        faults.into_iter().find(|(wrong, _, _)| *wrong).map(|(_, key, rule)| (key, rule))
    }
}
