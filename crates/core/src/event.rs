//! Events: what happens in a session, as streams show it.
//!
//! The list is the public one, so it is longer than an enum of ours would be; the wire says `turn`
//! where we say step.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    AssistantImage, BudgetType, Content, ContentBlock, EventId, Retry, SessionId, StopReason, Timestamp,
    Usage,
};

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(missing_docs, reason = "the fields are those of the wire and say what they are")]
pub enum AgentEvent {
    /// A run began.
    RunStarted { session_id: SessionId, prompt: Content },
    /// A run ended well; with `extraction_required` its structured output is still to come.
    RunCompleted {
        session_id: SessionId,
        result: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        structured_output: Option<Value>,
        extraction_required: bool,
        usage: Usage,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        terminal_cause_kind: Option<TerminalCause>,
    },
    /// The structured output is there.
    ExtractionSucceeded {
        session_id: SessionId,
        structured_output: Value,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        schema_warnings: Option<Vec<SchemaWarning>>,
    },
    /// The structured output could not be had.
    ExtractionFailed { session_id: SessionId, last_output: String, attempts: u32, reason: String },
    /// A run failed.
    RunFailed {
        session_id: SessionId,
        error_class: ErrorClass,
        error: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        terminal_cause_kind: Option<TerminalCause>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error_report: Option<ErrorReport>,
    },
    /// A hook began.
    HookStarted { hook_id: String, point: HookPoint },
    /// A hook ended.
    HookCompleted { hook_id: String, point: HookPoint, duration_ms: u64 },
    /// A hook failed.
    HookFailed { hook_id: String, point: HookPoint, error: String },
    /// A hook refused.
    HookDenied {
        hook_id: String,
        point: HookPoint,
        reason_code: HookReason,
        message: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        payload: Option<Value>,
    },
    /// A step began.
    TurnStarted { turn_number: u32 },
    /// More reasoning.
    ReasoningDelta { delta: String },
    /// All of the step's reasoning.
    ReasoningComplete { content: String },
    /// More text.
    TextDelta { delta: String },
    /// All of the step's text.
    TextComplete { content: String },
    /// A tool on the provider's side produced something.
    ServerToolContent {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        name: String,
        content: Value,
    },
    /// The model made an image.
    AssistantImageAppended { image: AssistantImage },
    /// The model asks for a tool.
    ToolCallRequested { id: String, name: String, args: Value },
    /// The result of a call is in the transcript.
    ToolResultReceived {
        id: String,
        name: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        content: Vec<ContentBlock>,
        is_error: bool,
    },
    /// A step ended.
    TurnCompleted { stop_reason: StopReason, usage: Usage },
    /// A tool began.
    ToolExecutionStarted { id: String, name: String },
    /// A tool ended.
    ToolExecutionCompleted {
        id: String,
        name: String,
        result: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        content: Vec<ContentBlock>,
        is_error: bool,
        duration_ms: u64,
    },
    /// A tool took too long.
    ToolExecutionTimedOut { id: String, name: String, timeout_ms: u64 },
    /// The history is being shortened.
    CompactionStarted { input_tokens: u64, estimated_history_tokens: u64, message_count: u64 },
    /// The history was shortened.
    CompactionCompleted { summary_tokens: u64, messages_before: u64, messages_after: u64 },
    /// The history could not be shortened.
    CompactionFailed { error: String },
    /// A budget is nearly or wholly used up.
    BudgetWarning { budget_type: BudgetType, used: u64, limit: u64, percent: f32 },
    /// The model will be asked again.
    Retrying {
        attempt: u32,
        max_attempts: u32,
        error: String,
        delay_ms: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry: Option<Retry>,
    },
    /// Skills were put into the conversation.
    SkillsResolved { skills: Vec<Value>, injection_bytes: u64 },
    /// A skill could not be put into the conversation.
    SkillResolutionFailed {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        skill_key: Option<Value>,
        reason: Value,
        reference: String,
        error: String,
    },
    /// A queued input was answered.
    InteractionComplete {
        interaction_id: String,
        result: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        structured_output: Option<Value>,
    },
    /// A queued input waits for a callback tool.
    InteractionCallbackPending { interaction_id: String, tool_name: String, args: Value },
    /// A tool call waits for an approval.
    ToolApprovalRequested {
        id: String,
        name: String,
        args: Value,
        #[schemars(with = "String")]
        expires_at: Timestamp,
    },
    /// A queued input failed.
    InteractionFailed { interaction_id: String, error: String },
    /// The reader was too slow and lost events.
    StreamTruncated { reason: String },
    /// Tools came or went.
    ToolConfigChanged { payload: ToolConfigChange },
    /// A background job ended.
    BackgroundJobCompleted {
        job_id: String,
        display_name: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<String>,
        terminal_status: JobStatus,
        detail: String,
    },
}

/// An event on a stream: who, when, in which order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventEnvelope {
    /// The event's id.
    pub event_id: EventId,
    /// Where it comes from.
    pub source: EventSource,
    /// The source in a form for people.
    pub source_id: String,
    /// Its place among the events of its source in this process.
    pub seq: u64,
    /// The mob it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mob_id: Option<String>,
    /// When it happened, in Unix milliseconds.
    pub timestamp_ms: i64,
    /// The event.
    pub payload: AgentEvent,
}

/// Where an event comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(missing_docs, reason = "each id says what it is")]
pub enum EventSource {
    /// A session.
    Session { session_id: SessionId },
    /// A runtime.
    Runtime { runtime_id: String },
    /// A queued input.
    Interaction { interaction_id: String },
    /// A callback tool.
    Callback,
    /// Something outside.
    External { source_id: String },
}

/// A keyword of an output schema that a provider does not take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SchemaWarning {
    /// The provider.
    pub provider: crate::Provider,
    /// Where in the schema.
    pub path: String,
    /// What was done about it.
    pub message: String,
}

/// What failed, for people and for programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorReport {
    /// The class of the failure.
    pub class: ErrorClass,
    /// A finer reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What happened.
    pub message: String,
}

/// A change to the tools of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolConfigChange {
    /// What was done.
    pub operation: ToolConfigOperation,
    /// To what.
    pub target: String,
    /// How it went, for people.
    pub status: String,
    /// How it went, for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_info: Option<Value>,
    /// Whether it outlives the process.
    pub persisted: bool,
    /// The step from which it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_at_turn: Option<u32>,
    /// Which set of tools it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// What changed among the tools that are loaded on demand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deferred_catalog_delta: Option<Value>,
}

macro_rules! wire_enum {
    ($(#[$doc:meta])* $name:ident { $($variant:ident),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        #[expect(missing_docs, reason = "the names are those of the wire and say what they are")]
        pub enum $name { $($variant),* }
    };
}

wire_enum!(
    /// The class of a failed run.
    ErrorClass {
        Llm, Store, Tool, Mcp, SessionNotFound, Budget, MaxTokens, ContentFiltered, MaxTurns, Cancelled,
        InvalidState, OperationNotFound, DepthLimit, ConcurrencyLimit, Config, Internal, Build, Auth,
        CallbackPending, StructuredOutput, InvalidOutputSchema, Hook, Terminal, NoPendingBoundary,
    }
);
wire_enum!(
    /// Why a run ended as it did.
    TerminalCause {
        Unknown, HookDenied, HookFailure, LlmFailure, ToolFailure, StructuredOutputValidationFailed,
        BudgetExhausted, TimeBudgetExceeded, RetryExhausted, TurnLimitReached, RuntimeApplyFailure, FatalFailure,
    }
);
wire_enum!(
    /// Where a hook is called.
    HookPoint {
        RunStarted, RunCompleted, RunFailed, PreLlmRequest, PostLlmResponse, PreToolExecution,
        PostToolExecution, TurnBoundary,
    }
);
wire_enum!(
    /// Why a hook refused.
    HookReason { PolicyViolation, SafetyViolation, SchemaViolation, Timeout, RuntimeError }
);
wire_enum!(
    /// What was done to a source of tools.
    ToolConfigOperation { Add, Remove, Reload }
);
wire_enum!(
    /// How a background job ended.
    JobStatus { Completed, Failed, Aborted, Cancelled, Retired, Terminated }
);
