//! The tool calls of one step: who runs each, and its result.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::prompt::{INTERRUPTED, NO_BUDGET, NOT_STARTED};
use super::{CallIntent, Pending, ToolTable};
use crate::{
    AgentEvent, ApprovalRequest, AssistantBlock, CompletedCall, Message, StopReason, Timestamp, ToolCall,
    ToolFailure, ToolOutput, ToolResult, ToolRoute, Usage, excerpt,
};

/// The calls of one step, in call order.
#[derive(Debug, Clone, Default)]
pub(super) struct StepCalls {
    calls: Vec<StepCall>,
    /// Tokens used by the step.
    usage: Usage,
}

/// A call of a response, and its raw arguments if they are invalid.
pub(super) type RequestedCall = (ToolCall, Option<String>);

#[derive(Debug, Clone)]
struct StepCall {
    call: ToolCall,
    route: ToolRoute,
    answer: Option<CallAnswer>,
}

/// The result of a call, and whether it is stored.
#[derive(Debug, Clone)]
pub(super) struct CallAnswer {
    pub(super) result: CompletedCall,
    pub(super) saved: bool,
}

impl From<CompletedCall> for CallAnswer {
    fn from(result: CompletedCall) -> Self {
        Self { result, saved: false }
    }
}

impl StepCall {
    fn is_open(&self, route: ToolRoute) -> bool {
        self.answer.is_none() && self.route == route
    }

    fn answer(&mut self, output: ToolOutput) -> &CompletedCall {
        let result = output.truncated().into_completed_call(&self.call.id);
        &self.answer.insert(result.into()).result
    }
}

impl StepCalls {
    /// Plans the calls of a response. At most `allowed` of them are run.
    pub(super) fn plan(calls: Vec<RequestedCall>, usage: Usage, tools: &ToolTable, allowed: usize) -> Self {
        let mut remaining = allowed;
        let plan = |(call, unreadable): RequestedCall| {
            let planned = match (tools.get(&call.name), unreadable) {
                (None, _) => Err(not_found(&call.name, tools)),
                (_, Some(raw)) => Err(invalid(&raw)),
                _ if remaining == 0 => Err(ToolOutput::failure(ToolFailure::BudgetExhausted, NO_BUDGET)),
                (Some(route), None) => Ok(*route),
            };
            let (route, answer) = match planned {
                Ok(route) => (route, None),
                Err(output) => (ToolRoute::Local, Some(output.into_completed_call(&call.id).into())),
            };
            remaining -= usize::from(answer.is_none());
            StepCall { call, route, answer }
        };
        Self { calls: calls.into_iter().map(plan).collect(), usage }
    }

    /// Resumes the calls of a step after some were approved: those without a result are run.
    pub(super) fn resumed(calls: Vec<(ToolCall, Option<CallAnswer>)>) -> Self {
        let resume = |(call, answer)| StepCall { call, route: ToolRoute::Local, answer };
        Self { calls: calls.into_iter().map(resume).collect(), usage: Usage::default() }
    }

    /// Returns the tokens used by the step.
    pub(super) fn usage(&self) -> Usage {
        self.usage
    }

    /// Returns the calls to store before any of them is run.
    pub(super) fn intents(&self) -> Vec<CallIntent> {
        let intent = |StepCall { call, route, .. }: &StepCall| CallIntent {
            id: call.id.clone(),
            route: *route,
            expires_at: None,
        };
        self.calls.iter().map(intent).collect()
    }

    /// Returns the calls without a result that have this runner.
    fn open_on(&self, route: ToolRoute) -> impl Iterator<Item = ToolCall> {
        self.calls.iter().filter(move |entry| entry.is_open(route)).map(|entry| entry.call.clone())
    }

    /// Returns the calls that the runtime is running or will run.
    pub(super) fn local(&self) -> Vec<ToolCall> {
        self.open_on(ToolRoute::Local).collect()
    }

    /// Returns the calls that wait for the caller; approvals expire at `expires_at`.
    pub(super) fn pending(&self, expires_at: Timestamp) -> Pending {
        let request = |call| ApprovalRequest { call, expires_at };
        Pending {
            calls: self.open_on(ToolRoute::Callback).collect(),
            approvals: self.open_on(ToolRoute::Approval).map(request).collect(),
        }
    }

    /// Returns the calls that have no result yet.
    pub(super) fn open(&self) -> Vec<ToolCall> {
        let open = self.calls.iter().filter(|entry| entry.answer.is_none());
        open.map(|entry| entry.call.clone()).collect()
    }

    /// Records a result for a call that is not to be run.
    pub(super) fn reject(&mut self, id: &str, output: ToolOutput) {
        let is_open = |entry: &&mut StepCall| entry.call.id == id && entry.answer.is_none();
        if let Some(entry) = self.calls.iter_mut().find(is_open) {
            entry.answer(output);
        }
    }

    /// Records the result of a running call; returns `None` if no such call is running.
    pub(super) fn finish(&mut self, id: &str, output: ToolOutput, duration_ms: u64) -> Option<AgentEvent> {
        let is_running = |entry: &&mut StepCall| entry.call.id == id && entry.is_open(ToolRoute::Local);
        let entry = self.calls.iter_mut().find(is_running)?;
        let name = entry.call.name.clone();
        let ToolResult { tool_use_id, content, is_error } = entry.answer(output).result.clone();
        Some(AgentEvent::ToolExecutionCompleted {
            id: tool_use_id,
            name,
            result: content.to_text(),
            content: content.blocks().to_vec(),
            is_error,
            duration_ms,
        })
    }

    /// Returns the results that are not stored yet, and marks them as stored.
    pub(super) fn take_unsaved(&mut self) -> Vec<CompletedCall> {
        let answers = self.calls.iter_mut().filter_map(|entry| entry.answer.as_mut());
        let take = |answer: &mut CallAnswer| {
            (!std::mem::replace(&mut answer.saved, true)).then(|| answer.result.clone())
        };
        answers.filter_map(take).collect()
    }

    /// Records a result for every call that has none.
    pub(super) fn cut_off(&mut self, started: Started) {
        for entry in self.calls.iter_mut().filter(|entry| entry.answer.is_none()) {
            let is_started = started == Started::Yes && entry.route == ToolRoute::Local;
            let why = if is_started { INTERRUPTED } else { NOT_STARTED };
            entry.answer(ToolOutput::failure(ToolFailure::Interrupted, why));
        }
    }

    /// Returns every call with its result; all must have one.
    pub(super) fn results(&self) -> Vec<(ToolCall, CompletedCall)> {
        let pair = |entry: &StepCall| Some((entry.call.clone(), entry.answer.as_ref()?.result.clone()));
        self.calls.iter().filter_map(pair).collect()
    }
}

/// Whether the calls of a step were started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Started {
    Yes,
    No,
}

/// Creates the messages that answer a step's calls: the results, followed by the images that tools generated.
pub(super) fn result_messages(calls: Vec<CompletedCall>, now: Timestamp) -> Vec<Arc<Message>> {
    let mut results = Vec::with_capacity(calls.len());
    let mut blocks = Vec::new();
    for CompletedCall { result, images } in calls {
        results.push(result);
        blocks.extend(images.into_iter().map(AssistantBlock::Image));
    }
    let mut messages = vec![Arc::new(Message::ToolResults { results, created_at: now })];
    if !blocks.is_empty() {
        let stop_reason = StopReason::EndTurn;
        messages.push(Arc::new(Message::Assistant { blocks, stop_reason, created_at: now }));
    }
    messages
}

fn not_found(name: &str, tools: &ToolTable) -> ToolOutput {
    const MAX_NAMES: usize = 20;
    let mut names: Vec<_> = tools.keys().take(MAX_NAMES).map(|name| format!("`{name}`")).collect();
    if tools.len() > MAX_NAMES {
        names.push(format!("and {} more", tools.len() - MAX_NAMES));
    }
    let known = if names.is_empty() { "there are none".to_owned() } else { names.join(", ") };
    ToolOutput::failure(ToolFailure::NotFound, &format!("no tool is named `{name}`; available: {known}"))
}

fn invalid(raw: &str) -> ToolOutput {
    let message = format!("the arguments must be a JSON object, and were: {}", excerpt(raw));
    ToolOutput::failure(ToolFailure::InvalidArguments, &message)
}

/// Normalizes a response's blocks so that they can be sent to any provider: no empty text, and every call with a unique
/// id and an object for arguments. Returns the calls, each with its raw arguments if they are invalid.
pub(super) fn normalize_blocks(blocks: &mut Vec<AssistantBlock>, step: u64) -> Vec<RequestedCall> {
    blocks.retain(|block| match block {
        AssistantBlock::Text { text, .. } => !text.is_empty(),
        AssistantBlock::Reasoning { text, meta } => !text.is_empty() || meta.is_some(),
        _ => true,
    });
    let call_id = |block: &AssistantBlock| match block {
        AssistantBlock::ToolUse { id, .. } => Some(id.clone()),
        _ => None,
    };
    let mut taken: BTreeSet<String> = blocks.iter().filter_map(call_id).collect();
    let mut seen = BTreeSet::new();
    let mut calls = Vec::new();
    for block in blocks {
        let AssistantBlock::ToolUse { id, name, args, .. } = block else {
            continue;
        };
        if id.is_empty() || !seen.insert(id.clone()) {
            *id = unused_id(format!("call_{step}_{}", calls.len()), &taken);
            taken.insert(id.clone());
        }
        if name.is_empty() {
            "unnamed".clone_into(name);
        }
        let unreadable = unreadable_args(args);
        calls.push((ToolCall { id: id.clone(), name: name.clone(), args: args.clone() }, unreadable));
    }
    calls
}

/// Returns an id that no other call of the step has, including later ones.
fn unused_id(mut id: String, taken: &BTreeSet<String>) -> String {
    while taken.contains(&id) {
        id.push('_');
    }
    id
}

/// Replaces arguments that are not an object, and returns the original text. Some models omit them where a tool takes
/// none; that is not an error.
fn unreadable_args(args: &mut Value) -> Option<String> {
    let raw = match args {
        Value::Object(_) => return None,
        Value::Null => String::new(),
        Value::String(text) => std::mem::take(text),
        ref other => other.to_string(),
    };
    if raw.trim().is_empty() {
        *args = json!({});
        return None;
    }
    *args = json!({ "unreadable": raw });
    Some(raw)
}
