//! A run's tool calls: from the committed step to the committed results.

use std::sync::Arc;

use super::effect::{CallChange, CallIntent, Effect};
use super::machine::{Next, Run, State};
use super::outcome::{Outcome, Pending};
use super::prompt::NO_BUDGET;
use super::step_calls::StepCalls;
use crate::{
    AgentEvent, ApprovalRequest, AssistantBlock, CompletedCall, Message, StopReason, Timestamp, ToolFailure,
    ToolOutput, ToolRoute,
};

impl Run {
    /// Returns the time after which calls that start to await approval now count as denied.
    fn approvals_end(&self) -> Timestamp {
        self.effects.now().checked_add(self.settings.approval_timeout).unwrap_or(Timestamp::MAX)
    }

    /// Requests a refresh of the tools before approved calls of an earlier run are started.
    pub(super) fn resume_approved(&mut self, work: StepCalls) {
        let names = work.local().into_iter().map(|call| call.name).collect();
        self.effects.push(Effect::Boundary(names));
        self.state = State::ResumingApproved(work);
    }

    /// Runs approved calls, within the budget.
    pub(super) fn dispatch_approved(&mut self, mut work: StepCalls) {
        let local = work.local();
        for call in local.iter().skip(self.meter.admit_calls(local.len())) {
            work.reject(&call.id, ToolOutput::failure(ToolFailure::BudgetExhausted, NO_BUDGET));
        }
        self.dispatch(work);
    }

    pub(super) fn dispatch(&mut self, work: StepCalls) {
        let local = work.local();
        for call in &local {
            self.effects
                .emit(AgentEvent::ToolExecutionStarted { id: call.id.clone(), name: call.name.clone() });
        }
        self.meter.count_calls(local.len(), &mut self.effects);
        if !local.is_empty() {
            self.effects.push(Effect::Start(local));
        }
        self.resume(work);
    }

    pub(super) fn resume(&mut self, work: StepCalls) {
        if work.local().is_empty() {
            self.close(work);
        } else {
            self.state = State::Working(work);
        }
    }

    pub(super) fn tool_done(&mut self, id: &str, output: ToolOutput, duration_ms: u64) {
        let (State::Working(work) | State::Committing(Next::Resume(work))) = &mut self.state else {
            return;
        };
        let Some((call, result)) = work.finish(id, output) else {
            return;
        };
        self.effects.emit(AgentEvent::ToolExecutionCompleted {
            id: call.id,
            name: call.name,
            result: result.content.to_text(),
            content: result.content.blocks().to_vec(),
            is_error: result.is_error,
            duration_ms,
        });
        let State::Working(work) = &mut self.state else {
            return;
        };
        let mut work = std::mem::take(work);
        if work.local().is_empty() {
            return self.close(work);
        }
        let unsaved = work.take_unsaved();
        self.commit(Vec::new(), CallChange::Complete(unsaved), Next::Resume(work));
    }

    /// Handles a step in which the runtime has no calls left to run.
    pub(super) fn close(&mut self, mut work: StepCalls) {
        let pending = work.pending(self.approvals_end());
        if pending == Pending::default() {
            return self.record(&work, Next::Step);
        }
        let awaited = |awaited: &ApprovalRequest| CallIntent {
            id: awaited.call.id.clone(),
            route: ToolRoute::Approval,
            expires_at: Some(awaited.expires_at),
        };
        let calls = pending.approvals.iter().map(awaited).collect();
        let change = CallChange::Update { calls, results: work.take_unsaved() };
        self.commit(Vec::new(), change, Next::Finish(Outcome::Pending(pending)));
    }

    /// Adds the results of a step to the transcript.
    pub(super) fn record(&mut self, work: &StepCalls, next: Next) {
        let (calls, settled): (Vec<_>, Vec<_>) = work.results().into_iter().unzip();
        let messages = result_messages(settled.clone(), self.effects.now());
        self.commit(messages.clone(), CallChange::Close, next);
        for (call, CompletedCall { result, .. }) in calls.into_iter().zip(settled) {
            self.effects.emit(AgentEvent::ToolResultReceived {
                id: call.id,
                name: call.name,
                content: result.content.blocks().to_vec(),
                is_error: result.is_error,
            });
        }
        self.emit_images(&messages);
        let usage = self.step_usage;
        self.effects.emit(AgentEvent::TurnCompleted { stop_reason: StopReason::ToolUse, usage });
    }
    /// Emits events for the images in messages.
    pub(super) fn emit_images(&mut self, messages: &[Arc<Message>]) {
        for message in messages {
            let Message::Assistant { blocks, .. } = &**message else { continue };
            for block in blocks {
                if let AssistantBlock::Image(image) = block {
                    self.effects.emit(AgentEvent::AssistantImageAppended { image: image.clone() });
                }
            }
        }
    }
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
