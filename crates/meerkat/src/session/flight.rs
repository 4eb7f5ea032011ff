//! What a run has started and not yet heard of: a model call, tools, a pause.
//!
//! Dropping the flight abandons all of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use meerkat_core::run::Input;
use meerkat_core::{
    AgentEvent, BoxFuture, Cut, Delta, HookInvocation, HookPoint, Invocation, Model, ModelError,
    ModelErrorKind, ModelRequest, SessionId, Tool, ToolCall, ToolConfigChange, ToolConfigOperation,
    ToolFailure, ToolOutput,
};
use meerkat_store::Store;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::{Id, JoinSet};
use tracing::{Instrument as _, Span};

use super::events::Emitter;
use super::media::{shown, stored_output};
use super::spans;
use crate::hooks::RunHooks;
use crate::structured::OutputJudge;

/// Work under way for one run.
pub(super) struct Flight {
    emitter: Arc<Emitter>,
    store: Arc<dyn Store>,
    max_concurrent: usize,
    slots: Arc<Semaphore>,
    ask: Option<BoxFuture<'static, Input>>,
    /// Text that listeners have heard of the latest model call.
    streamed: Arc<Mutex<String>>,
    rest: Option<BoxFuture<'static, ()>>,
    hooks: Option<BoxFuture<'static, Input>>,
    tools: JoinSet<(String, ToolOutput)>,
    calls: HashMap<Id, (String, Instant)>,
}

/// One model call to make.
pub(super) struct ModelCall {
    pub(super) model: Arc<dyn Model>,
    pub(super) request: ModelRequest,
    pub(super) timeout: Duration,
    /// Whether listeners hear the answer as it comes.
    pub(super) audience: Audience,
    /// Whether the model sees what is in the store.
    pub(super) media: Media,
    /// Who judges the answer, if it is to be a structured output.
    pub(super) judge: Option<OutputJudge>,
}

/// Whether listeners hear an answer as it comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Audience {
    Listeners,
    Nobody,
}

/// Whether a model sees what is in the store, or is only told of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Media {
    Shown,
    Named,
}

impl Flight {
    pub(super) fn new(emitter: Arc<Emitter>, store: Arc<dyn Store>, max_concurrent: usize) -> Self {
        Self {
            emitter,
            store,
            max_concurrent,
            slots: Arc::new(Semaphore::new(max_concurrent.max(1))),
            ask: None,
            streamed: Arc::default(),
            rest: None,
            hooks: None,
            tools: JoinSet::new(),
            calls: HashMap::new(),
        }
    }

    /// Starts a model call.
    pub(super) fn ask(&mut self, call: ModelCall, span: Span) {
        let (emitter, store) = (Arc::clone(&self.emitter), Arc::clone(&self.store));
        let streamed = Arc::<Mutex<String>>::default();
        self.streamed = Arc::clone(&streamed);
        let asked = async move {
            let mut input = call.make(&emitter, &*store, &streamed).await;
            if let Input::Failed(error) = &mut input {
                // A provider's message may have been cut in the middle of a secret.
                let clean = emitter.redactor().redact_cut(&error.message, Cut::End).into_owned();
                error.message = clean;
            }
            spans::answered(&Span::current(), &input);
            input
        };
        self.ask = Some(Box::pin(asked.instrument(span)));
    }

    /// Returns the text that listeners have heard of the latest model call.
    pub(super) fn streamed(&self) -> String {
        self.streamed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Starts a pause.
    pub(super) fn rest(&mut self, pause: BoxFuture<'static, ()>) {
        self.rest = Some(pause);
    }

    /// Starts asking hooks.
    pub(super) fn consult(&mut self, asked: BoxFuture<'static, Input>) {
        self.hooks = Some(asked);
    }

    /// Starts a tool; it waits for a free slot. Hooks are told what comes of it before anybody else is.
    pub(super) fn start(
        &mut self,
        (tool, span): (Option<Arc<dyn Tool>>, Span),
        invocation: Invocation,
        timeout: Duration,
        hooks: Option<Arc<RunHooks>>,
    ) {
        let slots = Arc::clone(&self.slots);
        let (emitter, store) = (Arc::clone(&self.emitter), Arc::clone(&self.store));
        let id = invocation.call.id.clone();
        let work = async move {
            let (id, name) = (invocation.call.id.clone(), invocation.call.name.clone());
            let Some(tool) = tool else {
                return (id, ToolOutput::failure(ToolFailure::Unavailable, "the tool went away"));
            };
            let _slot = slots.acquire().await;
            let told = hooks.map(|hooks| (hooks, invocation.session_id, invocation.call.clone()));
            let output = match tokio::time::timeout(timeout, tool.call(invocation)).await {
                Ok(mut output) => {
                    output.redact(emitter.redactor());
                    stored_output(&*store, allowed(told, output).await, emitter.redactor()).await
                }
                Err(_) => {
                    let timeout_ms = timeout.as_millis() as u64;
                    let message = format!("`{name}` took longer than {timeout_ms} ms and was stopped");
                    emitter.emit(AgentEvent::ToolExecutionTimedOut { id: id.clone(), name, timeout_ms });
                    ToolOutput::failure(ToolFailure::Timeout, &message)
                }
            };
            spans::done(&Span::current(), &output);
            (id, output)
        };
        let handle = self.tools.spawn(work.instrument(span));
        self.calls.insert(handle.id(), (id, Instant::now()));
    }

    /// Stops everything.
    pub(super) fn abandon(&mut self) {
        *self = Self::new(Arc::clone(&self.emitter), Arc::clone(&self.store), self.max_concurrent);
    }

    /// Waits for the first thing that happens; forever, if nothing is under way.
    pub(super) async fn next(&mut self) -> Input {
        let Self { ask, rest, hooks, tools, calls, .. } = self;
        tokio::select! {
            input = settle(ask) => {
                self.ask = None;
                input
            }
            input = settle(hooks) => {
                self.hooks = None;
                input
            }
            () = settle(rest) => {
                self.rest = None;
                Input::Rested
            }
            Some(ended) = tools.join_next_with_id() => tool_done(calls, ended),
        }
    }
}

/// Lets the hooks look at what came of a call; one that refuses keeps it from the model.
async fn allowed(told: Option<(Arc<RunHooks>, SessionId, ToolCall)>, output: ToolOutput) -> ToolOutput {
    let looked_at = |hooks: &RunHooks| hooks.points().has(HookPoint::PostToolExecution);
    let Some((hooks, session, call)) = told.filter(|(hooks, ..)| looked_at(hooks)) else { return output };
    match hooks.consult(&HookInvocation::of_output(session, &call, &output)).await {
        Ok(()) => output,
        Err(denial) => denial.output(),
    }
}

/// Tells listeners that a tool could not be offered to the model.
fn left_out(tool: String, reason: &str) -> AgentEvent {
    let payload = ToolConfigChange {
        operation: ToolConfigOperation::Remove,
        target: tool,
        status: format!("left out of the request: {reason}"),
        status_info: Some(json!({ "kind": "warning_failed_closed", "error": reason })),
        persisted: false,
        applied_at_turn: None,
        domain: Some("tool_scope".to_owned()),
        deferred_catalog_delta: None,
    };
    AgentEvent::ToolConfigChanged { payload }
}

async fn settle<T>(slot: &mut Option<BoxFuture<'static, T>>) -> T {
    match slot {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

fn tool_done(
    calls: &mut HashMap<Id, (String, Instant)>,
    ended: Result<(Id, (String, ToolOutput)), tokio::task::JoinError>,
) -> Input {
    let (task, output) = match ended {
        Ok((task, (_, output))) => (task, output),
        // A tool that panics has failed like any other.
        Err(error) => (error.id(), ToolOutput::failure(ToolFailure::ExecutionFailed, "the tool crashed")),
    };
    let (id, started) = calls.remove(&task).unwrap_or_else(|| (String::new(), Instant::now()));
    Input::ToolDone { id, output, duration_ms: started.elapsed().as_millis() as u64 }
}

impl ModelCall {
    async fn make(mut self, emitter: &Emitter, store: &dyn Store, streamed: &Mutex<String>) -> Input {
        if self.media == Media::Shown {
            let messages = std::mem::take(&mut self.request.messages);
            self.request.messages = shown(store, self.model.info(), messages).await;
        }
        let audience = self.audience;
        let sink = |delta: Delta| {
            if audience == Audience::Listeners {
                emitter.emit(match delta {
                    Delta::Text(delta) => {
                        streamed.lock().unwrap_or_else(PoisonError::into_inner).push_str(&delta);
                        AgentEvent::TextDelta { delta }
                    }
                    Delta::Reasoning(delta) => AgentEvent::ReasoningDelta { delta },
                    Delta::ToolLeftOut { tool, reason } => left_out(tool, &reason),
                });
            }
        };
        let answer = match tokio::time::timeout(self.timeout, self.model.ask(&self.request, &sink)).await {
            Ok(Ok(answer)) if answer.nests_too_deep() => return Input::Failed(self.too_deep()),
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Input::Failed(error),
            Err(_) => return Input::Failed(self.timed_out()),
        };
        match self.judge {
            None => Input::Answered(answer),
            Some(judge) => {
                let text: String = answer
                    .blocks
                    .iter()
                    .filter_map(|block| match block {
                        meerkat_core::AssistantBlock::Text { text, .. } => Some(text.as_str()),
                        _ => None,
                    })
                    .collect();
                let verdict = judge.judge(&text);
                Input::Extracted { text, usage: answer.usage, verdict }
            }
        }
    }

    fn too_deep(&self) -> ModelError {
        ModelError {
            kind: ModelErrorKind::Malformed,
            provider: self.model.info().provider,
            status: None,
            retry_after: None,
            message: "the answer has arguments or content that nest too deep to be kept".to_owned(),
        }
    }

    fn timed_out(&self) -> ModelError {
        ModelError {
            kind: ModelErrorKind::CallTimeout,
            provider: self.model.info().provider,
            status: None,
            retry_after: None,
            message: format!("no answer within {} s", self.timeout.as_secs_f32()),
        }
    }
}
