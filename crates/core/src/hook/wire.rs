//! What a hook is told and what it answers, in the shapes of the wire.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Content, ContentBlock, ErrorClass, ErrorReport, HookPoint, HookReason, SessionId, StopReason, ToolCall,
    ToolOutput, Usage,
};

/// What a hook is told. What does not belong to its point is left out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HookInvocation {
    /// Where in the run.
    pub point: HookPoint,
    /// The session.
    pub session_id: SessionId,
    /// The step, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn_number: Option<u32>,
    /// What the user says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<Content>,
    /// What failed.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub error: Option<HookError>,
    /// What the model is about to be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub llm_request: Option<HookRequest>,
    /// What the model answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub llm_response: Option<HookResponse>,
    /// The call that is about to be run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<HookToolCall>,
    /// What came of a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_result: Option<HookToolResult>,
}

impl HookInvocation {
    /// Begins one.
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

    /// Tells of a call.
    #[must_use]
    pub fn of_call(session_id: SessionId, call: &ToolCall) -> Self {
        let tool_call =
            HookToolCall { tool_use_id: call.id.clone(), name: call.name.clone(), args: call.args.clone() };
        Self { tool_call: Some(tool_call), ..Self::new(HookPoint::PreToolExecution, session_id) }
    }

    /// Tells of what came of a call.
    #[must_use]
    pub fn of_output(session_id: SessionId, call: &ToolCall, output: &ToolOutput) -> Self {
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

/// What failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HookError {
    /// What happened.
    pub error: String,
    /// The class of the failure.
    pub error_class: ErrorClass,
    /// The same for programs.
    pub error_report: ErrorReport,
}

/// What the model is about to be asked.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HookRequest {
    /// How many tokens it may write.
    pub max_tokens: u32,
    /// How freely it chooses words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// The parameters for the provider, those that follow from the config included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_params: Option<Value>,
    /// How many messages it reads.
    pub message_count: u64,
}

/// What the model answered.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HookResponse {
    /// Its text.
    pub assistant_text: String,
    /// The tools it asks for.
    pub tool_call_names: Vec<String>,
    /// Why it stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
    /// What it cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// A call that is about to be run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HookToolCall {
    /// The call's id.
    pub tool_use_id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments.
    pub args: Value,
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HookToolResult {
    /// The call's id.
    pub tool_use_id: String,
    /// The tool's name.
    pub name: String,
    /// What came of it, as text.
    pub content: String,
    /// The same in blocks.
    pub content_blocks: Vec<ContentBlock>,
    /// Whether it failed.
    pub is_error: bool,
}

/// What a hook answers; nothing at all is an answer too.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct HookReturn {
    /// What it decides.
    #[serde(default)]
    pub decision: Option<HookDecision>,
    /// Changes to the run, which no hook can make.
    #[serde(default)]
    pub patches: Vec<Value>,
}

/// What a hook decides.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum HookDecision {
    /// The run goes on.
    Allow,
    /// It does not.
    Deny {
        /// Why, for programs.
        reason_code: HookReason,
        /// Why, for people and for the model.
        message: String,
        /// More for programs.
        #[serde(default)]
        payload: Option<Value>,
    },
}
