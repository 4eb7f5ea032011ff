//! The tool calls of one step: who runs each, and its result.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::prompt::{INTERRUPTED, NO_BUDGET, NOT_STARTED};
use super::{CallIntent, Pending, ToolTable};
use crate::{
    AgentEvent, ApprovalRequest, AssistantBlock, CompletedCall, Message, StopReason, Timestamp, ToolCall,
    ToolFailure, ToolOutput, ToolRoute, Usage,
};

/// The calls of one step, in call order.
#[derive(Debug, Clone, Default)]
pub(super) struct StepCalls {
    calls: Vec<Planned>,
    /// Tokens used by the step.
    usage: Usage,
}

#[derive(Debug, Clone)]
struct Planned {
    call: ToolCall,
    fate: CallState,
}

#[derive(Debug, Clone)]
enum CallState {
    /// Run by the runtime, now or later.
    Local,
    /// Run by the caller.
    Callback,
    /// Run by the runtime, once approved.
    Awaited,
    /// Completed, with its result.
    Done { settled: CompletedCall, saved: bool },
}

impl StepCalls {
    /// Plans the calls of a response. At most `allowed` of them are run.
    pub(super) fn plan(
        calls: Vec<(ToolCall, Option<String>)>,
        usage: Usage,
        tools: &ToolTable,
        allowed: usize,
    ) -> Self {
        let mut remaining = allowed;
        let plan = |(call, unreadable): (ToolCall, Option<String>)| {
            let error = match (tools.get(&call.name), unreadable) {
                (None, _) => Some(not_found(&call.name, tools)),
                (_, Some(raw)) => Some(invalid(&raw)),
                _ if remaining == 0 => Some(ToolOutput::failure(ToolFailure::BudgetExhausted, NO_BUDGET)),
                _ => None,
            };
            let fate = match (error, tools.get(&call.name)) {
                (Some(output), _) => {
                    CallState::Done { settled: output.into_completed_call(&call.id), saved: false }
                }
                (None, route) => {
                    remaining -= 1;
                    match route {
                        Some(ToolRoute::Callback) => CallState::Callback,
                        Some(ToolRoute::Approval) => CallState::Awaited,
                        Some(ToolRoute::Local) | None => CallState::Local,
                    }
                }
            };
            Planned { call, fate }
        };
        Self { calls: calls.into_iter().map(plan).collect(), usage }
    }

    /// Resumes the calls of a step after some were approved: those without a result are run.
    pub(super) fn resumed(calls: Vec<(ToolCall, Option<CallAnswer>)>) -> Self {
        let plan = |(call, answered): (ToolCall, Option<CallAnswer>)| {
            let fate = match answered {
                None => CallState::Local,
                Some(CallAnswer { settled, saved: kept }) => CallState::Done { settled, saved: kept },
            };
            Planned { call, fate }
        };
        Self { calls: calls.into_iter().map(plan).collect(), usage: Usage::default() }
    }

    /// Returns the calls to store before any of them is run.
    pub(super) fn intents(&self) -> Vec<CallIntent> {
        let intent = |planned: &Planned| {
            let route = match &planned.fate {
                CallState::Callback => ToolRoute::Callback,
                CallState::Awaited => ToolRoute::Approval,
                CallState::Local | CallState::Done { .. } => ToolRoute::Local,
            };
            CallIntent { id: planned.call.id.clone(), route, expires_at: None }
        };
        self.calls.iter().map(intent).collect()
    }

    /// Returns the calls that the runtime is running or will run.
    pub(super) fn local(&self) -> Vec<ToolCall> {
        self.calls.iter().filter(|p| matches!(p.fate, CallState::Local)).map(|p| p.call.clone()).collect()
    }

    /// Returns the calls that wait for the caller; approvals expire at `expires_at`.
    pub(super) fn pending(&self, expires_at: Timestamp) -> Pending {
        let mut pending = Pending::default();
        for Planned { call, fate } in &self.calls {
            match fate {
                CallState::Callback => pending.calls.push(call.clone()),
                CallState::Awaited => {
                    pending.approvals.push(ApprovalRequest { call: call.clone(), expires_at })
                }
                CallState::Local | CallState::Done { .. } => {}
            }
        }
        pending
    }

    /// Returns the calls that have no result yet.
    pub(super) fn open(&self) -> Vec<ToolCall> {
        self.calls
            .iter()
            .filter(|p| !matches!(p.fate, CallState::Done { .. }))
            .map(|p| p.call.clone())
            .collect()
    }

    /// Records a result for a call that is not to be run.
    pub(super) fn reject(&mut self, id: &str, output: ToolOutput) {
        let open = |p: &&mut Planned| p.call.id == id && !matches!(p.fate, CallState::Done { .. });
        if let Some(planned) = self.calls.iter_mut().find(open) {
            planned.fate =
                CallState::Done { settled: output.truncated().into_completed_call(id), saved: false };
        }
    }

    /// Records the result of a running call; returns `None` if no such call is running.
    pub(super) fn finish(&mut self, id: &str, output: ToolOutput, duration_ms: u64) -> Option<AgentEvent> {
        let planned =
            self.calls.iter_mut().find(|p| p.call.id == id && matches!(p.fate, CallState::Local))?;
        let settled = output.truncated().into_completed_call(id);
        let event = AgentEvent::ToolExecutionCompleted {
            id: id.to_owned(),
            name: planned.call.name.clone(),
            result: settled.result.content.to_text(),
            content: settled.result.content.blocks().to_vec(),
            is_error: settled.result.is_error,
            duration_ms,
        };
        planned.fate = CallState::Done { settled, saved: false };
        Some(event)
    }

    /// Returns the tokens used by the step.
    pub(super) fn usage(&self) -> Usage {
        self.usage
    }

    /// Returns the results that are not stored yet, and marks them as stored.
    pub(super) fn take_unsaved(&mut self) -> Vec<CompletedCall> {
        let unsaved = |planned: &mut Planned| match &mut planned.fate {
            CallState::Done { settled, saved } if !*saved => {
                *saved = true;
                Some(settled.clone())
            }
            _ => None,
        };
        self.calls.iter_mut().filter_map(unsaved).collect()
    }

    /// Records a result for every call that has none.
    pub(super) fn cut_off(&mut self, started: Started) {
        let why = match started {
            Started::Yes => INTERRUPTED,
            Started::No => NOT_STARTED,
        };
        for planned in &mut self.calls {
            let why = match planned.fate {
                CallState::Done { .. } => continue,
                CallState::Callback | CallState::Awaited => NOT_STARTED,
                CallState::Local => why,
            };
            let settled =
                ToolOutput::failure(ToolFailure::Interrupted, why).into_completed_call(&planned.call.id);
            planned.fate = CallState::Done { settled, saved: false };
        }
    }

    /// Returns every call with its result; all must have one.
    pub(super) fn results(&self) -> Vec<(ToolCall, CompletedCall)> {
        let pair = |planned: &Planned| match &planned.fate {
            CallState::Done { settled, .. } => Some((planned.call.clone(), settled.clone())),
            CallState::Local | CallState::Callback | CallState::Awaited => None,
        };
        self.calls.iter().filter_map(pair).collect()
    }
}

/// The result of a call, and whether it is stored.
#[derive(Debug, Clone)]
pub(super) struct CallAnswer {
    pub(super) settled: CompletedCall,
    pub(super) saved: bool,
}

/// Whether the calls of a step were started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Started {
    Yes,
    No,
}

/// Creates the messages that answer a step's calls: the results, followed by the images that tools generated.
pub(super) fn result_messages(settled: Vec<CompletedCall>, now: Timestamp) -> Vec<Arc<Message>> {
    let mut results = Vec::with_capacity(settled.len());
    let mut blocks = Vec::new();
    for CompletedCall { result, images } in settled {
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
    let excerpt: String = raw.chars().take(200).collect();
    let message = format!("the arguments must be a JSON object, and were: {excerpt}");
    ToolOutput::failure(ToolFailure::InvalidArguments, &message)
}

/// Normalizes a response's blocks so that they can be sent to any provider: no empty text, and every call with a unique
/// id and an object for arguments. Returns the calls, each with its raw arguments if they are invalid.
pub(super) fn normalize_blocks(
    blocks: &mut Vec<AssistantBlock>,
    step: u64,
) -> Vec<(ToolCall, Option<String>)> {
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
