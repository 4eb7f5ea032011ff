//! Input and output of hooks, in their wire format.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    AssistantBlock, Content, ContentBlock, ErrorClass, ErrorReport, HookPoint, HookReason, ModelResponse,
    SessionId, StopReason, ToolCall, ToolOutput, Usage,
};

/// Input of a hook. Fields that do not apply to its point are omitted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HookInvocation {
    /// Point in the run.
    pub point: HookPoint,
    /// Id of the session.
    pub session_id: SessionId,
    /// Step number, starting at 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn_number: Option<u32>,
    /// Prompt from the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<Content>,
    /// Error of a failed run.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub error: Option<HookError>,
    /// Request about to be sent to the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub llm_request: Option<HookRequest>,
    /// Response of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub llm_response: Option<HookResponse>,
    /// Call about to be run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<HookToolCall>,
    /// Result of a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_result: Option<HookToolResult>,
}

impl HookInvocation {
    /// Creates an invocation with no optional fields.
    #[must_use]
    pub const fn new(point: HookPoint, session_id: SessionId) -> Self {
        Self {
            point,
            session_id,
            turn_number: None,
            prompt: None,
            error: None,
            llm_request: None,
            llm_response: None,
            tool_call: None,
            tool_result: None,
        }
    }

    /// Creates the invocation for a call that is about to be run.
    #[must_use]
    pub fn for_call(session_id: SessionId, call: &ToolCall) -> Self {
        let tool_call =
            HookToolCall { tool_use_id: call.id.clone(), name: call.name.clone(), args: call.args.clone() };
        Self { tool_call: Some(tool_call), ..Self::new(HookPoint::PreToolExecution, session_id) }
    }

    /// Creates the invocation for the result of a call.
    #[must_use]
    pub fn for_output(session_id: SessionId, call: &ToolCall, output: &ToolOutput) -> Self {
        let tool_result = HookToolResult {
            tool_use_id: call.id.clone(),
            name: call.name.clone(),
            content: output.content.to_text(),
            content_blocks: output.content.blocks().to_vec(),
            is_error: output.is_error,
        };
        Self { tool_result: Some(tool_result), ..Self::new(HookPoint::PostToolExecution, session_id) }
    }
}

/// Error of a failed run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HookError {
    /// Human-readable description.
    pub error: String,
    /// Class of the failure.
    pub error_class: ErrorClass,
    /// Machine-readable report.
    pub error_report: ErrorReport,
}

/// A request about to be sent to the model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HookRequest {
    /// Maximum output tokens.
    pub max_tokens: u32,
    /// Sampling temperature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// Parameters for the provider, including those derived from the config.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_params: Option<Value>,
    /// Number of messages in the request.
    pub message_count: u64,
}

/// A response of the model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HookResponse {
    /// Text of the response.
    pub assistant_text: String,
    /// Names of the requested tools.
    pub tool_call_names: Vec<String>,
    /// Reason the model stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
    /// Tokens used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

impl From<&ModelResponse> for HookResponse {
    fn from(response: &ModelResponse) -> Self {
        let called = |block: &AssistantBlock| match block {
            AssistantBlock::ToolUse { name, .. } => Some(name.clone()),
            _ => None,
        };
        Self {
            assistant_text: response.blocks.iter().filter_map(AssistantBlock::text).collect(),
            tool_call_names: response.blocks.iter().filter_map(called).collect(),
            stop_reason: Some(response.stop_reason),
            usage: Some(response.usage),
        }
    }
}

/// A call that is about to be run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HookToolCall {
    /// Id of the call.
    pub tool_use_id: String,
    /// Name of the tool.
    pub name: String,
    /// Arguments.
    pub args: Value,
}

/// Result of a call.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HookToolResult {
    /// Id of the call.
    pub tool_use_id: String,
    /// Name of the tool.
    pub name: String,
    /// Content as text.
    pub content: String,
    /// Content as blocks.
    pub content_blocks: Vec<ContentBlock>,
    /// Whether the call failed.
    pub is_error: bool,
}

/// Output of a hook; empty output is valid, too.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct HookOutput {
    /// Decision of the hook.
    #[serde(default)]
    pub decision: Option<HookDecision>,
    /// Changes to the run; rejected, because no hook can make any.
    #[serde(default)]
    pub patches: Vec<Value>,
}

/// Decision of a hook.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum HookDecision {
    /// Continue.
    Allow,
    /// Stop the run, or do not run the call.
    Deny {
        /// Machine-readable reason.
        reason_code: HookReason,
        /// Reason for people and for the model.
        message: String,
        /// Additional machine-readable data.
        #[serde(default)]
        payload: Option<Value>,
    },
}
