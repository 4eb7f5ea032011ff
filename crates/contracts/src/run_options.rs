//! Options of a run, each declared once: in [`run_options!`](crate::run_options).

use std::collections::BTreeMap;

use meerkat_core::{ApprovalPolicy, BudgetLimits, Content, ContentBlock, Provider, SessionId, UUID_PATTERN};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{ApprovalInput, BuiltinConfig, NOT_BLANK, ToolHandler, ToolOverlayInput, ToolResultInput};

/// Passes the options that every run has to another macro. A row contains the bounds and the name on the wire, the name
/// in the crate, both types, whether the session keeps the option as it is (`session`), keeps what it resolves to
/// (`resolved`), or forgets it (`run`), its flags on the command line, and its descriptions for `meerkat_run` and
/// `meerkat_resume`. The types must be imported where the macro is used.
#[macro_export]
macro_rules! run_options {
    ($consumer:ident) => {
        $consumer! {
            system_prompt as system_prompt: Option<String> => Option<String>, session, "--system",
                "Replaces the default system prompt.",
                "Replaces the system prompt for the rest of the session.";
            model as model: Option<String> => Option<String>, resolved, "--model",
                "The model, such as `claude-opus-4-6`; the config's default if omitted. `offline` needs no API key.",
                "Another model for the rest of the session.";
            #[schemars(range(min = 1))]
            max_tokens as max_tokens: Option<u32> => Option<u32>, session, "--max-tokens",
                "Maximum output tokens per step.",
                "Maximum output tokens per step; unchanged if omitted.";
            provider as provider: Option<Provider> => Option<Provider>, resolved, "--provider",
                "Model provider; usually inferred from the model name.",
                "Model provider; usually inferred from the model name.";
            output_schema as output_schema: Option<Map<String, Value>> => Option<OutputSchema>, run, "--schema",
                "JSON Schema for a structured result in addition to the text, or a wrapper `{schema, name, \
                 strict, compat}`.",
                "JSON Schema for a structured result of this run.";
            #[schemars(range(max = $crate::MAX_OUTPUT_RETRIES))]
            structured_output_retries as structured_output_retries: Option<u32> => Option<u32>, session, "",
                "Retries when structured output fails validation, at most 100 (default 2).",
                "Retries when structured output fails validation, at most 100; unchanged if omitted.";
            tools as tools: Option<Vec<ToolHandler>> => Option<Vec<ToolHandler>>, resolved, "",
                "Your tools that the agent may call; a call ends the run with `pending_tool_calls`.",
                "Your tools; those of the last run are kept if omitted or empty.";
            enable_builtins as builtins: Option<bool> => Option<bool>, session, "--tools",
                "Enable or disable built-in tools; the config decides if omitted.",
                "Enable or disable built-in tools; unchanged if omitted.";
            enable_memory as memory: Option<bool> => Option<bool>, session, "--tools",
                "Enable or disable memory of compacted messages; the config decides if omitted.",
                "Enable or disable memory of compacted messages; unchanged if omitted.";
            comms_name as comms_name: Option<String> => Option<String>, run, "",
                "Name that identifies the agent to other agents.",
                "Name that identifies the agent to other agents; unchanged if omitted.";
            hooks_override as hooks: Option<HookOverrides> => HookOverlay, run, "",
                "Hooks for this run only.",
                "Hooks for this run only.";
            #[schemars(inner(length(max = $crate::MAX_INSTRUCTION_CHARS)))]
            additional_instructions as instructions: Option<Vec<String>> => Option<Vec<String>>, session, "--instructions",
                "Additional sections for the system prompt.",
                "Additional sections for the system prompt, for the rest of the session.";
            provider_params as provider_params: Option<Map<String, Value>> => Option<Map<String, Value>>, resolved, "--param --params-json --no-web-search",
                "Provider parameters, kept for the session's later runs.",
                "Provider parameters, merged into those of the session; `null` removes one.";
            approval_policy as approvals: Option<ApprovalPolicy> => Option<ApprovalPolicy>, session, "--approvals",
                "Calls that need approval: `never`, `on-request`, or `always`. Applies to the session, and only \
                 if stricter than the config.",
                "Calls that need approval from now on; unchanged if omitted. Applies only if stricter than the \
                 config.";
            budget_limits as budget: Option<BudgetLimits> => BudgetLimits, run, "--max-total-tokens --max-duration --max-tool-calls --max-cost",
                "Limits of the run.",
                "Limits of this run.";
            preload_skills as preload_skills: Option<Vec<SkillKey>> => Option<Vec<SkillKey>>, session, "",
                "Skills to add to the system prompt.",
                "Skills to add to the system prompt.";
            skill_refs as skills: Option<Vec<SkillRef>> => Vec<SkillKey>, run, "--skill",
                "Skills to load for this run.",
                "Skills to load for this run.";
            skill_references as skill_references: Option<Vec<String>> => Vec<String>, run, "",
                "No longer accepted; use `skill_refs`.",
                "No longer accepted; use `skill_refs`.";
        }
    };
}

macro_rules! requests {
    ($(
        $(#[$rule:meta])*
        $wire:ident as $field:ident: $type:ty => $target:ty, $scope:ident, $flag:literal, $run:literal, $resume:literal;
    )*) => {
        /// Request to start a session and run its first prompt.
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        pub struct RunRequest {
            /// The prompt: a string, or a list of text, image, and video blocks.
            #[schemars(schema_with = "prompt_schema")]
            pub prompt: Content,
            $(#[doc = $run] $(#[$rule])* pub $wire: $type,)*
            /// Keep the session alive for messages from other agents; needs `comms_name`.
            #[serde(alias = "host_mode")]
            pub keep_alive: Option<bool>,
            /// Settings of the built-in tools.
            pub builtin_config: Option<BuiltinConfig>,
            /// Labels for finding the session later, together at most 8 KiB. The names `mob_id`, `role`, `meerkat_id`,
            /// and those that start with `meerkat.` are reserved.
            #[schemars(extend("additionalProperties" = { "type": "string", "maxLength": MAX_LABEL_CHARS }))]
            pub labels: Option<BTreeMap<String, String>>,
            /// Send the run's events as notifications during the run.
            pub stream: Option<bool>,
            /// Log the run's events to the server's stderr.
            pub verbose: Option<bool>,
        }

        /// Request to resume a session, or to send it the results of pending tool calls.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
        pub struct ResumeRequest {
            /// The session.
            pub session_id: SessionId,
            /// The prompt, a string or a list of blocks; may be empty if `tool_results` or `approvals` is set.
            #[serde(default)]
            pub prompt: Content,
            /// Results of all pending tool calls.
            pub tool_results: Option<Vec<ToolResultInput>>,
            /// The user's decisions on all calls in `pending_approvals`. Leave `prompt` empty.
            pub approvals: Option<Vec<ApprovalInput>>,
            $(#[doc = $resume] $(#[$rule])* pub $wire: $type,)*
            /// Keep the session alive for messages from other agents; unchanged if omitted.
            #[serde(alias = "host_mode")]
            pub keep_alive: Option<bool>,
            /// Settings of the built-in tools; unchanged if omitted.
            pub builtin_config: Option<BuiltinConfig>,
            /// Tools this run may use.
            #[serde(alias = "turn_tool_overlay")]
            pub flow_tool_overlay: Option<ToolOverlayInput>,
            /// Send the run's events as notifications during the run.
            pub stream: Option<bool>,
            /// Log the run's events to the server's stderr.
            pub verbose: Option<bool>,
        }

        /// The names of the options on the wire, each with its flags on the command line, separated by spaces.
        pub const RUN_OPTIONS: &[(&str, &str)] = &[$((stringify!($wire), $flag)),*];
    };
}

run_options!(requests);

/// Maximum number of retries when structured output fails validation.
pub const MAX_OUTPUT_RETRIES: u32 = 100;

/// Maximum length of an additional instruction in characters; its limit is the same number of bytes.
pub const MAX_INSTRUCTION_CHARS: usize = 32 * 1024;
/// Maximum length of a label in characters; all labels of a session have the same limit in bytes.
pub const MAX_LABEL_CHARS: usize = 8 * 1024;

/// Returns the schema of a prompt, which must not be empty.
fn prompt_schema(generator: &mut SchemaGenerator) -> Schema {
    let block = generator.subschema_for::<ContentBlock>();
    let blocks = json_schema!({ "type": "array", "items": block, "minItems": 1 });
    json_schema!({ "anyOf": [{ "type": "string", "pattern": NOT_BLANK }, blocks] })
}

/// Pattern of a skill's name.
const SKILL_NAME: &str = "^[a-z0-9]+(-[a-z0-9]+)*$";

/// Key of a skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SkillKey {
    /// Id of the source it comes from.
    #[schemars(regex(pattern = UUID_PATTERN))]
    pub source_uuid: String,
    /// Name of the skill.
    #[schemars(regex(pattern = SKILL_NAME))]
    pub skill_name: String,
}

/// Form of a skill reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SkillRefKind {
    /// By its source and its name.
    Structured,
}

/// Reference to a skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SkillRef {
    /// Always `structured`.
    pub kind: SkillRefKind,
    /// Id of the source it comes from.
    #[schemars(regex(pattern = UUID_PATTERN))]
    pub source_uuid: String,
    /// Name of the skill.
    #[schemars(regex(pattern = SKILL_NAME))]
    pub skill_name: String,
}

impl SkillRef {
    /// Returns the key of the referenced skill.
    #[must_use]
    pub fn key(&self) -> SkillKey {
        SkillKey { source_uuid: self.source_uuid.clone(), skill_name: self.skill_name.clone() }
    }
}

/// Request to list or inspect skills.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SkillsRequest {
    /// `list` for all of them, `inspect` for one in full.
    pub action: SkillsAction,
    /// Skill to inspect.
    pub skill_key: Option<SkillKey>,
    /// Id of the source to load it from; overrides the key's source.
    #[schemars(regex(pattern = UUID_PATTERN))]
    pub source: Option<String>,
}

/// Action on skills.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SkillsAction {
    /// List them.
    List,
    /// Show one skill in full.
    Inspect,
}

/// Hooks of one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HookOverrides {
    /// Hooks to add.
    pub entries: Option<Vec<Map<String, Value>>>,
    /// Ids of hooks to skip.
    pub disable: Option<Vec<String>>,
}
