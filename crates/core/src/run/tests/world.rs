//! A minimal store and driver for the machine.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::run::{
    CallChange, Commit, Effect, Input, InputError, Opening, Progress, Run, RunEnd, RunInput, RunReport,
    RunSettings, Stop, StoredCall, ToolTable, open,
};
use crate::{
    AgentEvent, AssistantBlock, BudgetLimits, CompactionPolicy, CompletedCall, Content, HookPoint,
    HookPoints, Message, ModelError, ModelErrorKind, ModelResponse, Provider, ResponseStatus, RetryPolicy,
    RunId, SessionId, StopReason, Timestamp, ToolRoute, Transcript, Usage,
};

/// State that survives a crash.
#[derive(Debug, Clone, Default)]
pub(super) struct Durable {
    pub(super) messages: Vec<Arc<Message>>,
    pub(super) calls: Vec<StoredCall>,
    pub(super) progress: Progress,
}

impl Durable {
    pub(super) fn apply(&mut self, commit: &Commit) {
        self.messages.extend(commit.messages.iter().cloned());
        self.progress = commit.progress;
        match &commit.calls {
            CallChange::None => {}
            CallChange::Open(intents) => {
                assert!(self.calls.is_empty(), "calls are opened only when no others are open");
                self.calls = intents
                    .iter()
                    .map(|intent| StoredCall { intent: intent.clone(), result: None })
                    .collect();
            }
            CallChange::Complete(results) => self.settle(results),
            CallChange::Update { calls, results } => {
                for intent in calls {
                    let call = self.calls.iter_mut().find(|call| call.intent.id == intent.id);
                    let call = call.expect("a call that changes is open");
                    assert_eq!((call.intent.route, &call.result), (ToolRoute::Approval, &None));
                    let starts = intent.route == ToolRoute::Local;
                    assert_eq!(
                        call.intent.expires_at.is_some(),
                        starts,
                        "a call starts only after approval was requested"
                    );
                    call.intent = intent.clone();
                }
                self.settle(results);
            }
            CallChange::Close => self.calls.clear(),
        }
    }

    fn settle(&mut self, results: &[CompletedCall]) {
        for result in results {
            let call = self.calls.iter_mut().find(|call| call.intent.id == result.result.tool_use_id);
            call.expect("a completed call was open").result = Some(result.clone());
        }
    }

    pub(super) fn transcript(&self) -> Transcript {
        let compaction = self.progress.compaction;
        let first = compaction.map_or(0, |c| c.kept_from);
        let summary = compaction.map(|c| Arc::clone(&self.messages[c.summary_at as usize]));
        Transcript::new(first, self.messages[first as usize..].to_vec(), summary)
    }

    pub(super) fn open(&self, mut input: RunInput) -> Result<Opening, InputError> {
        open(&self.transcript(), &self.calls, &mut input, Timestamp::UNIX_EPOCH)
    }

    /// Panics unless every call among these messages is followed by its results.
    pub(super) fn check_asked(messages: &[Arc<Message>]) {
        for (index, message) in messages.iter().enumerate() {
            let calls: Vec<_> = message.tool_calls().into_iter().map(|call| call.id).collect();
            let answered: Vec<_> = match messages.get(index + 1).map(|next| &**next) {
                Some(Message::ToolResults { results, .. }) => {
                    results.iter().map(|result| result.tool_use_id.clone()).collect()
                }
                _ => Vec::new(),
            };
            assert_eq!(answered, calls, "the request has a result for every call");
        }
    }

    /// Panics if a run continues the prompt of an earlier one that was interrupted or killed.
    pub(super) fn check_separation(&self, earlier: &Self) {
        let end = earlier.progress.last_run.map(|run| run.end);
        if !matches!(end, Some(None | Some(RunEnd::Cancelled))) {
            return;
        }
        let prompts = |message: &Arc<Message>| matches!(**message, Message::User { .. });
        let start = earlier.messages.len();
        let is_joined =
            earlier.messages.last().is_some_and(prompts) && self.messages.get(start).is_some_and(prompts);
        assert!(!is_joined, "two prompts are joined");
    }

    /// Panics unless every provider would accept the transcript.
    pub(super) fn check(&self) {
        assert!(
            matches!(self.messages.first().map(|m| &**m), None | Some(Message::User { .. })),
            "a session starts with a user message"
        );
        for (index, message) in self.messages.iter().enumerate() {
            let ids: Vec<_> = message.tool_calls().into_iter().map(|call| call.id).collect();
            assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "call ids are unique");
            assert!(message.tool_calls().iter().all(|call| call.args.is_object()));
            if let Message::Assistant { blocks, stop_reason, .. } = &**message {
                let is_text = |block: &AssistantBlock| matches!(block, AssistantBlock::Text { .. });
                match stop_reason {
                    StopReason::Cancelled => assert!(blocks.iter().all(is_text), "{blocks:?}"),
                    _ => assert!(!blocks.is_empty(), "an answer has a block"),
                }
            }
            match self.messages.get(index + 1).map(|next| &**next) {
                Some(Message::ToolResults { results, .. }) => {
                    let answered: Vec<_> = results.iter().map(|r| r.tool_use_id.clone()).collect();
                    assert_eq!(answered, ids, "each call has one result, in call order");
                    assert!(!ids.is_empty(), "results answer calls");
                }
                Some(_) => assert!(ids.is_empty(), "calls are followed by their results: {ids:?}"),
                None => {
                    let open: Vec<_> = self.calls.iter().map(|call| call.intent.id.clone()).collect();
                    assert_eq!(open, ids, "the open calls are those of the last message");
                }
            }
        }
    }
}

pub(super) fn settings() -> RunSettings {
    RunSettings {
        session_id: SessionId::from_uuid(Uuid::from_u128(1)),
        run_id: RunId::from_uuid(Uuid::from_u128(2)),
        provider: Provider::Other,
        max_steps: 8,
        budget: BudgetLimits::default(),
        price: None,
        warn_at: 0.8,
        retry: RetryPolicy::default(),
        extraction_retries: None,
        schema_warnings: Vec::new(),
        extraction_prompt: None,
        compaction: None,
        find_pinned: |_| Vec::new(),
        hooks: HookPoints::default(),
        approval_timeout: Duration::from_secs(600),
    }
}

pub(super) fn compaction() -> CompactionPolicy {
    CompactionPolicy {
        threshold: 60,
        window: Some(90),
        keep_groups: 2,
        max_summary_tokens: 64,
        min_steps_between: 2,
    }
}

pub(super) fn tools() -> Arc<ToolTable> {
    let local = ["alpha", "beta"].map(|name| (name.to_owned(), ToolRoute::Local));
    let others = [("ask_user", ToolRoute::Callback), ("erase", ToolRoute::Approval)];
    let others = others.map(|(name, route)| (name.to_owned(), route));
    Arc::new(local.into_iter().chain(others).collect())
}

pub(super) fn prompt(text: &str) -> RunInput {
    RunInput { prompt: Content::text(text), ..RunInput::default() }
}

pub(super) fn text(text: &str) -> AssistantBlock {
    AssistantBlock::Text { text: text.to_owned(), meta: None }
}

pub(super) fn call(id: &str, name: &str) -> AssistantBlock {
    AssistantBlock::ToolUse {
        id: id.to_owned(),
        name: name.to_owned(),
        args: serde_json::json!({ "n": 1 }),
        meta: None,
    }
}

pub(super) fn answer(blocks: Vec<AssistantBlock>) -> Input {
    let usage = Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() };
    Input::ModelResponded(ModelResponse {
        blocks,
        stop_reason: StopReason::EndTurn,
        extent: ResponseStatus::Complete,
        usage,
    })
}

/// A response that continues when it is sent back.
pub(super) fn paused(blocks: Vec<AssistantBlock>) -> Input {
    let usage = Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() };
    Input::ModelResponded(ModelResponse {
        blocks,
        stop_reason: StopReason::EndTurn,
        extent: ResponseStatus::Paused,
        usage,
    })
}

/// An interrupt after the model has streamed this text.
pub(super) fn interrupt(partial: &str) -> Input {
    Input::Stop { stop: Stop::Interrupt, partial: partial.to_owned() }
}

pub(super) fn model_error(kind: ModelErrorKind) -> ModelError {
    ModelError { kind, provider: Provider::Other, status: None, retry_after: None, message: "no".to_owned() }
}

/// One run and the store it commits to. Effects that need a result are left to the test.
pub(super) struct Bench {
    pub(super) durable: Durable,
    pub(super) run: Run,
    pub(super) events: Vec<AgentEvent>,
    pub(super) report: Option<RunReport>,
}

/// The input that the machine is waiting for.
#[derive(Debug, PartialEq)]
pub(super) enum Waiting {
    Model,
    Extraction,
    Tools(Vec<String>),
    Pause(Duration),
    Hooks(HookPoint),
    CheckingCalls(Vec<String>),
    Nothing,
    End,
}

impl Bench {
    pub(super) fn new(settings: RunSettings, durable: Durable, input: RunInput) -> Self {
        let opening = durable.open(input).expect("the session opens");
        let run = Run::new(settings, durable.transcript(), durable.progress, opening, Timestamp::UNIX_EPOCH);
        Self { durable, run, events: Vec::new(), report: None }
    }

    pub(super) fn feed(&mut self, input: Input) -> Waiting {
        self.run.feed(Timestamp::UNIX_EPOCH, input);
        self.go()
    }

    /// Commits and emits until the machine needs an external input.
    pub(super) fn go(&mut self) -> Waiting {
        let mut waiting = Waiting::Nothing;
        loop {
            match self.run.next() {
                Effect::Emit(event) => self.events.push(event),
                Effect::Commit(commit) => {
                    self.durable.apply(&commit);
                    self.durable.check();
                    self.run.feed(Timestamp::UNIX_EPOCH, Input::Committed(Ok(())));
                }
                Effect::Boundary(_) => self.run.feed(Timestamp::UNIX_EPOCH, Input::Tools(tools())),
                Effect::CallModel(crate::run::ModelTask::Extract(_)) => waiting = Waiting::Extraction,
                Effect::CallModel(_) => waiting = Waiting::Model,
                Effect::Start(calls) => {
                    waiting = Waiting::Tools(calls.into_iter().map(|call| call.id).collect());
                }
                Effect::RunHooks(invocation) => waiting = Waiting::Hooks(invocation.point),
                Effect::CheckCalls(calls) => {
                    waiting = Waiting::CheckingCalls(calls.into_iter().map(|call| call.id).collect());
                }
                Effect::Sleep(delay) => waiting = Waiting::Pause(delay),
                Effect::Stop(stop) => {
                    self.run.feed(Timestamp::UNIX_EPOCH, Input::Stop { stop, partial: "streamed".to_owned() })
                }
                Effect::CancelAll => waiting = Waiting::Nothing,
                Effect::Wait => return waiting,
                Effect::End(report) => {
                    self.report = Some(*report);
                    return Waiting::End;
                }
            }
        }
    }

    /// Returns the event types, in order.
    pub(super) fn event_types(&self) -> Vec<String> {
        let name = |event: &AgentEvent| {
            let value = serde_json::to_value(event).expect("events serialize");
            value["type"].as_str().expect("events have a type").to_owned()
        };
        self.events.iter().map(name).collect()
    }
}
