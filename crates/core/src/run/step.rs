//! One step of a run: the model call, the compaction before it, and the tool calls after it.

use std::sync::Arc;

use super::effect::{CallChange, CallIntent, Effect, ModelTask, ToolTable};
use super::events::{response_events, result_events};
use super::machine::Run;
use super::outcome::{Outcome, Pending};
use super::pause::Pauses;
use super::prompt::NO_BUDGET;
use super::states::{Next, State};
use super::step_calls::{RequestedCall, StepCalls, normalize_blocks, result_messages};
use crate::compact::estimate;
use crate::{
    AgentEvent, ApprovalRequest, AssistantBlock, ErrorClass, HookPoint, HookResponse, Message, ModelError,
    ModelErrorKind, ModelResponse, RetryDecision, StopReason, TerminalCause, Timestamp, ToolFailure,
    ToolOutput, ToolRoute,
};

impl Run {
    pub(super) fn enter_boundary(&mut self) {
        if self.meter.is_spent() {
            return self.finish_out_of_budget();
        }
        if !self.meter.has_steps() {
            let message = format!("the run reached its limit of {} steps", self.settings.max_steps);
            return self.fail(ErrorClass::MaxTurns, TerminalCause::TurnLimitReached, message);
        }
        self.effects.push(Effect::Boundary(Vec::new()));
        self.state = State::Boundary;
    }

    pub(super) fn start_step(&mut self, tools: Arc<ToolTable>) {
        self.tools = tools;
        self.effects.emit(AgentEvent::TurnStarted { turn_number: self.meter.steps() });
        match self.window.due_cut(&self.ledger).filter(|_| self.meter.can_summarize()) {
            Some(cut) => self.summarize(cut),
            None => self.call_model_for_step(1),
        }
    }

    /// Calls the model for the step, within the budget.
    pub(super) fn call_model_for_step(&mut self, attempt: u32) {
        if self.meter.is_spent() {
            return self.finish_out_of_budget();
        }
        match attempt {
            1 => self.run_hooks(HookPoint::PreLlmRequest, Next::Request, |_| {}),
            _ => self.call_model(ModelTask::Step, State::Asking(attempt)),
        }
    }

    pub(super) fn step_responded(&mut self, mut answer: ModelResponse, attempt: u32) {
        self.model_calls.succeeded();
        self.count(answer.usage);
        self.ledger.set_context_tokens(answer.usage);
        let calls = normalize_blocks(&mut answer.blocks, self.ledger.progress().steps);
        let is_empty = answer.blocks.iter().all(|block| matches!(block, AssistantBlock::Reasoning { .. }));
        if is_empty {
            let error = ModelError {
                kind: ModelErrorKind::Incomplete,
                provider: self.settings.provider,
                status: None,
                retry_after: None,
                message: "the model returned an empty response".to_owned(),
            };
            return self.step_failed(&error, attempt);
        }
        let point = HookPoint::PostLlmResponse;
        let response = self.settings.hooks.has(point).then(|| HookResponse::from(&answer));
        let next = Next::Take(answer, calls);
        self.run_hooks(point, next, |invocation| invocation.llm_response = response);
    }

    /// Adds a response to the session.
    pub(super) fn take(&mut self, answer: ModelResponse, calls: Vec<RequestedCall>) {
        let ModelResponse { blocks, stop_reason, extent, usage } = answer;
        self.count_step();
        self.window.accepted();
        self.effects.emit_all(response_events(&blocks));
        let message = Arc::new(Message::Assistant { blocks, stop_reason, created_at: self.effects.now() });
        if calls.is_empty() {
            let next = match self.pauses.add(&message, extent) {
                Some(text) => self.after_answer(text),
                None => Next::EndStep(Box::new(Next::Boundary)),
            };
            self.commit(vec![message], CallChange::None, next);
            return self.effects.emit(AgentEvent::TurnCompleted { stop_reason, usage });
        }
        self.pauses = Pauses::default();
        let allowed = self.meter.admit_calls(calls.len());
        let calls = StepCalls::plan(calls, usage, &self.tools, allowed);
        self.commit(vec![message], CallChange::Open(calls.intents()), Next::Dispatch(calls));
    }

    pub(super) fn step_failed(&mut self, error: &ModelError, attempt: u32) {
        if error.kind == ModelErrorKind::ContextOverflow {
            if self.meter.can_summarize()
                && let Some(cut) = self.window.overflow_cut(&self.ledger)
            {
                return self.summarize(cut);
            }
            if self.window.halve(&self.ledger) {
                return self.call_model(ModelTask::Step, State::Asking(attempt));
            }
        }
        let decision = self.model_calls.failed(error, attempt, &self.meter, &mut self.effects);
        let (class, cause) = match (decision, error.kind) {
            (RetryDecision::After(_), _) => return self.state = State::BackingOff(Next::Ask(attempt + 1)),
            (RetryDecision::Exhausted, _) => (ErrorClass::Llm, TerminalCause::RetryExhausted),
            (_, ModelErrorKind::Auth) => (ErrorClass::Auth, TerminalCause::LlmFailure),
            (_, ModelErrorKind::ContentFilter) => (ErrorClass::ContentFiltered, TerminalCause::LlmFailure),
            _ => (ErrorClass::Llm, TerminalCause::LlmFailure),
        };
        self.fail(class, cause, error.to_string());
    }

    fn summarize(&mut self, cut: u64) {
        let context = self.ledger.transcript().context();
        self.effects.emit(AgentEvent::CompactionStarted {
            input_tokens: self.ledger.progress().last_input_tokens,
            estimated_history_tokens: estimate(&context),
            message_count: context.len() as u64,
        });
        let task = self.window.summary_task(&self.ledger, cut, self.effects.now());
        self.call_model(task, State::Summarizing(cut));
    }

    pub(super) fn summarized(&mut self, answer: &ModelResponse, cut: u64) {
        self.count(answer.usage);
        self.count_step();
        let text: String = answer.blocks.iter().filter_map(AssistantBlock::text).collect();
        if text.trim().is_empty() {
            return self.summary_failed("the model returned no summary".to_owned(), cut);
        }
        let summary = self.window.summary(&text, &self.ledger, cut, self.effects.now());
        self.compact(summary, cut, answer.usage.output_tokens);
    }

    /// Continues without a summary, or drops the oldest part of a history that does not fit the window.
    pub(super) fn summary_failed(&mut self, error: String, cut: u64) {
        self.effects.emit(AgentEvent::CompactionFailed { error });
        if !self.window.must_compact(&self.ledger) {
            return self.call_model_for_step(1);
        }
        let summary = self.window.dropped(&self.ledger, cut, self.effects.now());
        self.compact(summary, cut, 0);
    }

    fn compact(&mut self, summary: Arc<Message>, cut: u64, summary_tokens: u64) {
        let messages_before = self.ledger.transcript().context().len() as u64;
        self.ledger.compact(cut, Arc::clone(&summary));
        let messages_after = self.ledger.transcript().context().len() as u64;
        self.commit(vec![summary], CallChange::None, Next::Ask(1));
        self.effects.emit(AgentEvent::CompactionCompleted {
            summary_tokens,
            messages_before,
            messages_after,
        });
    }

    /// Requests a refresh of the tools before approved calls of an earlier run are started.
    pub(super) fn resume_approved(&mut self, calls: StepCalls) {
        let names = calls.local().into_iter().map(|call| call.name).collect();
        self.effects.push(Effect::Boundary(names));
        self.state = State::ResumingApproved(calls);
    }

    /// Runs approved calls, within the budget.
    pub(super) fn dispatch_approved(&mut self, mut calls: StepCalls, tools: Arc<ToolTable>) {
        self.tools = tools;
        let local = calls.local();
        for call in local.iter().skip(self.meter.admit_calls(local.len())) {
            calls.reject(&call.id, ToolOutput::failure(ToolFailure::BudgetExhausted, NO_BUDGET));
        }
        self.dispatch(calls);
    }

    /// Requests a check of a step's calls before they run, if there are hooks for it.
    pub(super) fn check_calls(&mut self, calls: StepCalls) {
        let open = calls.open();
        if open.is_empty() || !self.settings.hooks.has(HookPoint::PreToolExecution) {
            return self.dispatch(calls);
        }
        self.effects.push(Effect::CheckCalls(open));
        self.state = State::CheckingCalls(calls);
    }

    pub(super) fn calls_checked(&mut self, mut calls: StepCalls, denied: Vec<(String, ToolOutput)>) {
        for (id, output) in denied {
            calls.reject(&id, output);
        }
        self.dispatch(calls);
    }

    fn dispatch(&mut self, calls: StepCalls) {
        let local = calls.local();
        for call in &local {
            let (id, name) = (call.id.clone(), call.name.clone());
            self.effects.emit(AgentEvent::ToolExecutionStarted { id, name });
        }
        self.meter.count_calls(local.len(), &mut self.effects);
        if !local.is_empty() {
            self.effects.push(Effect::Start(local));
        }
        self.resume(calls);
    }

    pub(super) fn resume(&mut self, calls: StepCalls) {
        if calls.local().is_empty() {
            self.close(calls);
        } else {
            self.state = State::Working(calls);
        }
    }

    pub(super) fn call_finished(&mut self, mut calls: StepCalls, event: AgentEvent) {
        self.effects.emit(event);
        if calls.local().is_empty() {
            return self.close(calls);
        }
        let unsaved = calls.take_unsaved();
        self.commit(Vec::new(), CallChange::Complete(unsaved), Next::Resume(calls));
    }

    /// Handles a step in which the runtime has no calls left to run.
    fn close(&mut self, mut calls: StepCalls) {
        let expires_at = self.effects.now().checked_add(self.settings.approval_timeout);
        let pending = calls.pending(expires_at.unwrap_or(Timestamp::MAX));
        if pending == Pending::default() {
            return self.record(&calls, Next::EndStep(Box::new(Next::Boundary)));
        }
        let awaited = |awaited: &ApprovalRequest| CallIntent {
            id: awaited.call.id.clone(),
            route: ToolRoute::Approval,
            expires_at: Some(awaited.expires_at),
        };
        let intents = pending.approvals.iter().map(awaited).collect();
        let change = CallChange::Update { calls: intents, results: calls.take_unsaved() };
        self.commit(Vec::new(), change, Next::Finish(Outcome::Pending(pending)));
    }

    /// Adds the results of a step to the transcript.
    pub(super) fn record(&mut self, calls: &StepCalls, next: Next) {
        let results = calls.results();
        let completed = results.iter().map(|(_, completed)| completed.clone()).collect();
        let messages = result_messages(completed, self.effects.now());
        let events = result_events(results, &messages);
        self.commit(messages, CallChange::Close, next);
        self.effects.emit_all(events);
        let (stop_reason, usage) = (StopReason::ToolUse, calls.usage());
        self.effects.emit(AgentEvent::TurnCompleted { stop_reason, usage });
    }
}
