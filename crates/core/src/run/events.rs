//! Events for responses, results, and the end of a run.

use std::sync::Arc;

use super::outcome::{Completion, Failure, Outcome, Pending};
use super::settings::RunSettings;
use crate::{
    AgentEvent, ApprovalRequest, AssistantBlock, CompletedCall, ErrorClass, ErrorReport, Message,
    TerminalCause, ToolCall, Usage,
};

/// Returns the events for the end of a run; `usage` is the session's.
pub(super) fn closing_events(settings: &RunSettings, usage: Usage, outcome: &Outcome) -> Vec<AgentEvent> {
    let session_id = settings.session_id;
    match outcome {
        Outcome::Completed(Completion { structured_output: Some(value), .. }) => {
            let warnings = &settings.schema_warnings;
            vec![AgentEvent::ExtractionSucceeded {
                session_id,
                structured_output: value.clone(),
                schema_warnings: (!warnings.is_empty()).then(|| warnings.clone()),
            }]
        }
        Outcome::Completed(Completion { extraction_error: Some(error), .. }) => {
            vec![AgentEvent::ExtractionFailed {
                session_id,
                last_output: error.last_output.clone(),
                attempts: error.attempts,
                reason: error.reason.clone(),
            }]
        }
        Outcome::Completed(done) => vec![run_completed(settings, usage, done)],
        Outcome::Pending(pending) => pending_events(settings, pending),
        Outcome::Failed(failure) => vec![run_failed(settings, failure)],
        Outcome::Cancelled => {
            let (class, cause) = (ErrorClass::Cancelled, TerminalCause::Unknown);
            let message = "the run was interrupted".to_owned();
            vec![run_failed(settings, &Failure { class, cause, message })]
        }
    }
}

/// Returns the events for calls that the caller must handle.
fn pending_events(settings: &RunSettings, pending: &Pending) -> Vec<AgentEvent> {
    let interaction_id = settings.run_id.to_string();
    let called = |call: &ToolCall| AgentEvent::InteractionCallbackPending {
        interaction_id: interaction_id.clone(),
        tool_name: call.name.clone(),
        args: call.args.clone(),
    };
    let awaited =
        |ApprovalRequest { call, expires_at }: &ApprovalRequest| AgentEvent::ToolApprovalRequested {
            id: call.id.clone(),
            name: call.name.clone(),
            args: call.args.clone(),
            expires_at: *expires_at,
        };
    pending.calls.iter().map(called).chain(pending.approvals.iter().map(awaited)).collect()
}

pub(super) fn run_completed(settings: &RunSettings, usage: Usage, done: &Completion) -> AgentEvent {
    AgentEvent::RunCompleted {
        session_id: settings.session_id,
        result: done.text.clone(),
        structured_output: done.structured_output.clone(),
        extraction_required: settings.extraction_retries.is_some() && done.cause.is_none(),
        usage,
        terminal_cause_kind: done.cause,
    }
}

fn run_failed(settings: &RunSettings, failure: &Failure) -> AgentEvent {
    let &Failure { class, cause, ref message } = failure;
    AgentEvent::RunFailed {
        session_id: settings.session_id,
        error_class: class,
        error: message.clone(),
        terminal_cause_kind: Some(cause),
        error_report: Some(ErrorReport { class, reason: None, message: message.clone() }),
    }
}

/// Returns the events for the blocks of a response.
pub(super) fn response_events(blocks: &[AssistantBlock]) -> Vec<AgentEvent> {
    let (mut text, mut reasoning, mut events) = (String::new(), String::new(), Vec::new());
    for block in blocks.iter().cloned() {
        match block {
            AssistantBlock::Text { text: part, .. } => text.push_str(&part),
            AssistantBlock::Reasoning { text: part, .. } => reasoning.push_str(&part),
            AssistantBlock::ToolUse { id, name, args, .. } => {
                events.push(AgentEvent::ToolCallRequested { id, name, args });
            }
            AssistantBlock::ServerToolContent { id, name, content, .. } => {
                events.push(AgentEvent::ServerToolContent { id, name, content });
            }
            AssistantBlock::Image(image) => events.push(AgentEvent::AssistantImageAppended { image }),
        }
    }
    let reasoning = (!reasoning.is_empty()).then_some(AgentEvent::ReasoningComplete { content: reasoning });
    let text = (!text.is_empty()).then_some(AgentEvent::TextComplete { content: text });
    reasoning.into_iter().chain(text).chain(events).collect()
}

/// Returns the events for the results of a step's calls, which are in these messages.
pub(super) fn result_events(
    results: Vec<(ToolCall, CompletedCall)>,
    messages: &[Arc<Message>],
) -> Vec<AgentEvent> {
    let received =
        |(call, CompletedCall { result, .. }): (ToolCall, CompletedCall)| AgentEvent::ToolResultReceived {
            id: call.id,
            name: call.name,
            content: result.content.blocks().to_vec(),
            is_error: result.is_error,
        };
    results.into_iter().map(received).chain(image_events(messages)).collect()
}

/// Returns the events for the images in messages.
pub(super) fn image_events(messages: &[Arc<Message>]) -> impl Iterator<Item = AgentEvent> {
    let blocks = messages.iter().filter_map(|message| match &**message {
        Message::Assistant { blocks, .. } => Some(blocks),
        _ => None,
    });
    blocks.flatten().filter_map(|block| match block {
        AssistantBlock::Image(image) => Some(AgentEvent::AssistantImageAppended { image: image.clone() }),
        _ => None,
    })
}
