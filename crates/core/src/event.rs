//! Events: changes in a session, as published on streams.
//!
//! The list is part of the public wire format, so it is longer than this crate needs; the wire says `turn` where the
//! code says step.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    AssistantImage, BudgetType, Content, ContentBlock, EventId, Retry, SessionId, StopReason, Timestamp,
    Usage,
};

/// An event in a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(missing_docs, reason = "the fields have their wire names and are self-explanatory")]
pub enum AgentEvent {
    /// A run started.
    RunStarted { session_id: SessionId, prompt: Content },
    /// A run completed; if `extraction_required` is set, its structured output follows.
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
    /// The structured output is available.
    ExtractionSucceeded {
        session_id: SessionId,
        structured_output: Value,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        schema_warnings: Option<Vec<SchemaWarning>>,
    },
    /// The structured output could not be extracted.
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
    /// A hook started.
    HookStarted { hook_id: String, point: HookPoint },
    /// A hook completed.
    HookCompleted { hook_id: String, point: HookPoint, duration_ms: u64 },
    /// A hook failed.
    HookFailed { hook_id: String, point: HookPoint, error: String },
    /// A hook denied the run or call.
    HookDenied {
        hook_id: String,
        point: HookPoint,
        reason_code: HookReason,
        message: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        payload: Option<Value>,
    },
    /// A step started.
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
    /// The model generated an image.
    AssistantImageAppended { image: AssistantImage },
    /// The model requested a tool call.
    ToolCallRequested { id: String, name: String, args: Value },
    /// The result of a call is in the transcript.
    ToolResultReceived {
        id: String,
        name: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        content: Vec<ContentBlock>,
        is_error: bool,
    },
    /// A step completed.
    TurnCompleted { stop_reason: StopReason, usage: Usage },
    /// A tool call started.
    ToolExecutionStarted { id: String, name: String },
    /// A tool call completed.
    ToolExecutionCompleted {
        id: String,
        name: String,
        result: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        content: Vec<ContentBlock>,
        is_error: bool,
        duration_ms: u64,
    },
    /// A tool call timed out.
    ToolExecutionTimedOut { id: String, name: String, timeout_ms: u64 },
    /// Compaction of the history started.
    CompactionStarted { input_tokens: u64, estimated_history_tokens: u64, message_count: u64 },
    /// Compaction of the history completed.
    CompactionCompleted { summary_tokens: u64, messages_before: u64, messages_after: u64 },
    /// Compaction of the history failed.
    CompactionFailed { error: String },
    /// A budget is nearly or completely exhausted.
    BudgetWarning { budget_type: BudgetType, used: u64, limit: u64, percent: f32 },
    /// The model call will be retried.
    Retrying {
        attempt: u32,
        max_attempts: u32,
        error: String,
        delay_ms: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry: Option<Retry>,
    },
    /// Skills were added to the conversation.
    SkillsResolved { skills: Vec<Value>, injection_bytes: u64 },
    /// A skill could not be added to the conversation.
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
    /// A queued input is waiting for a callback tool.
    InteractionCallbackPending { interaction_id: String, tool_name: String, args: Value },
    /// A tool call is waiting for approval.
    ToolApprovalRequested {
        id: String,
        name: String,
        args: Value,
        #[schemars(with = "String")]
        expires_at: Timestamp,
    },
    /// A queued input failed.
    InteractionFailed { interaction_id: String, error: String },
    /// The reader was too slow and missed events.
    StreamTruncated { reason: String },
    /// Tools were added or removed.
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

/// An event on a stream, with its origin and order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventEnvelope {
    /// Id of the event.
    pub event_id: EventId,
    /// Origin of the event.
    pub source: EventSource,
    /// Origin in human-readable form.
    pub source_id: String,
    /// Sequence number among the events of this source in this process.
    pub seq: u64,
    /// Id of the mob it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mob_id: Option<String>,
    /// Time of the event, in Unix milliseconds.
    pub timestamp_ms: i64,
    /// The event.
    pub payload: AgentEvent,
}

/// Origin of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(missing_docs, reason = "the ids are self-explanatory")]
pub enum EventSource {
    /// A session.
    Session { session_id: SessionId },
    /// A runtime.
    Runtime { runtime_id: String },
    /// A queued input.
    Interaction { interaction_id: String },
    /// A callback tool.
    Callback,
    /// An external source.
    External { source_id: String },
}

/// An output schema keyword that a provider does not support.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SchemaWarning {
    /// The provider.
    pub provider: crate::Provider,
    /// Path in the schema.
    pub path: String,
    /// Description of how the keyword was handled.
    pub message: String,
}

/// Description of a failure, for people and programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorReport {
    /// The class of the failure.
    pub class: ErrorClass,
    /// Finer reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Human-readable description.
    pub message: String,
}

/// A change to the tools of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolConfigChange {
    /// Type of the change.
    pub operation: ToolConfigOperation,
    /// Server or source that changed.
    pub target: String,
    /// Human-readable result.
    pub status: String,
    /// Machine-readable result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_info: Option<Value>,
    /// Whether the change outlives the process.
    pub persisted: bool,
    /// First step in which the change applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_at_turn: Option<u32>,
    /// Set of tools that changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Change to the tools that are loaded on demand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deferred_catalog_delta: Option<Value>,
}

macro_rules! wire_enum {
    ($(#[$doc:meta])* $name:ident { $($variant:ident),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        #[expect(missing_docs, reason = "the variants have their wire names and are self-explanatory")]
        pub enum $name { $($variant),* }
    };
}

wire_enum!(
    /// Class of a failed run.
    ErrorClass {
        Llm, Store, Tool, Mcp, SessionNotFound, Budget, MaxTokens, ContentFiltered, MaxTurns, Cancelled,
        InvalidState, OperationNotFound, DepthLimit, ConcurrencyLimit, Config, Internal, Build, Auth,
        CallbackPending, StructuredOutput, InvalidOutputSchema, Hook, Terminal, NoPendingBoundary,
    }
);
wire_enum!(
    /// Cause of the end of a run.
    TerminalCause {
        Unknown, HookDenied, HookFailure, LlmFailure, ToolFailure, StructuredOutputValidationFailed,
        BudgetExhausted, TimeBudgetExceeded, RetryExhausted, TurnLimitReached, RuntimeApplyFailure, FatalFailure,
    }
);
wire_enum!(
    /// Point in a run at which hooks are called.
    HookPoint {
        RunStarted, RunCompleted, RunFailed, PreLlmRequest, PostLlmResponse, PreToolExecution,
        PostToolExecution, TurnBoundary,
    }
);
wire_enum!(
    /// Reason for a denial by a hook.
    HookReason { PolicyViolation, SafetyViolation, SchemaViolation, Timeout, RuntimeError }
);
wire_enum!(
    /// Operation on a tool source.
    ToolConfigOperation { Add, Remove, Reload }
);
wire_enum!(
    /// Final status of a background job.
    JobStatus { Completed, Failed, Aborted, Cancelled, Retired, Terminated }
);
