//! Events for a response and for the end of a run.

use super::machine::Run;
use super::outcome::{Completion, Failure, Outcome, Pending};
use crate::{
    AgentEvent, ApprovalRequest, AssistantBlock, ErrorClass, ErrorReport, SchemaWarning, TerminalCause,
    ToolCall,
};

impl Run {
    pub(super) fn closing_events(&self, outcome: &Outcome) -> Vec<AgentEvent> {
        let session_id = self.settings.session_id;
        match outcome {
            Outcome::Completed(done) if self.settings.extraction_retries.is_some() => {
                match (&done.structured_output, &done.extraction_error) {
                    (Some(value), _) => vec![AgentEvent::ExtractionSucceeded {
                        session_id,
                        structured_output: value.clone(),
                        schema_warnings: self.schema_warnings(),
                    }],
                    (None, Some(error)) => vec![AgentEvent::ExtractionFailed {
                        session_id,
                        last_output: error.last_output.clone(),
                        attempts: error.attempts,
                        reason: error.reason.clone(),
                    }],
                    (None, None) => vec![self.run_completed(done)],
                }
            }
            Outcome::Completed(done) => vec![self.run_completed(done)],
            Outcome::Pending(pending) => self.waiting_events(pending),
            Outcome::Failed(failure) => vec![self.run_failed(failure)],
            Outcome::Cancelled => vec![self.run_failed(&Failure {
                class: ErrorClass::Cancelled,
                cause: TerminalCause::Unknown,
                message: "the run was interrupted".to_owned(),
            })],
        }
    }

    /// Returns the events for calls that the caller must handle.
    fn waiting_events(&self, pending: &Pending) -> Vec<AgentEvent> {
        let interaction_id = self.settings.run_id.to_string();
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

    fn schema_warnings(&self) -> Option<Vec<SchemaWarning>> {
        let warnings = &self.settings.schema_warnings;
        (!warnings.is_empty()).then(|| warnings.clone())
    }

    pub(super) fn run_completed(&self, done: &Completion) -> AgentEvent {
        AgentEvent::RunCompleted {
            session_id: self.settings.session_id,
            result: done.text.clone(),
            structured_output: done.structured_output.clone(),
            extraction_required: self.settings.extraction_retries.is_some() && done.cause.is_none(),
            usage: self.ledger.progress().usage,
            terminal_cause_kind: done.cause,
        }
    }

    fn run_failed(&self, failure: &Failure) -> AgentEvent {
        AgentEvent::RunFailed {
            session_id: self.settings.session_id,
            error_class: failure.class,
            error: failure.message.clone(),
            terminal_cause_kind: Some(failure.cause),
            error_report: Some(ErrorReport {
                class: failure.class,
                reason: None,
                message: failure.message.clone(),
            }),
        }
    }

    pub(super) fn announce(&mut self, blocks: &[AssistantBlock]) {
        let (mut text, mut reasoning) = (String::new(), String::new());
        for block in blocks {
            match block {
                AssistantBlock::Text { text: t, .. } => text.push_str(t),
                AssistantBlock::Reasoning { text: t, .. } => reasoning.push_str(t),
                _ => {}
            }
        }
        if !reasoning.is_empty() {
            self.effects.emit(AgentEvent::ReasoningComplete { content: reasoning });
        }
        if !text.is_empty() {
            self.effects.emit(AgentEvent::TextComplete { content: text });
        }
        for block in blocks.iter().cloned() {
            match block {
                AssistantBlock::ToolUse { id, name, args, .. } => {
                    self.effects.emit(AgentEvent::ToolCallRequested { id, name, args });
                }
                AssistantBlock::ServerToolContent { id, name, content, .. } => {
                    self.effects.emit(AgentEvent::ServerToolContent { id, name, content });
                }
                AssistantBlock::Image(image) => {
                    self.effects.emit(AgentEvent::AssistantImageAppended { image })
                }
                AssistantBlock::Text { .. } | AssistantBlock::Reasoning { .. } => {}
            }
        }
    }
}
