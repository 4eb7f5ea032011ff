//! The work a run is waiting for: a model call, hooks, tools, a backoff.
//!
//! Dropping [`InFlight`] cancels all of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use meerkat_core::run::Input;
use meerkat_core::{
    AgentEvent, BoxFuture, Cut, HookInvocation, HookPoint, Invocation, SessionId, Tool, ToolCall,
    ToolFailure, ToolOutput,
};
use meerkat_store::Store;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;
use tokio::task::{Id, JoinSet};
use tokio_util::task::AbortOnDropHandle;
use tracing::{Instrument as _, Span};

use super::media::{externalize_output, redact_output};
use super::model_call::ModelCall;
use super::spans;
use super::step_timer::{Part, StepTimer};
use crate::events::Emitter;
use crate::hooks::RunHooks;

/// Work in flight for one run.
pub(super) struct InFlight {
    emitter: Arc<Emitter>,
    store: Arc<dyn Store>,
    max_concurrent: usize,
    slots: Arc<Semaphore>,
    /// One for each call that runs, and for as many that block their threads after their timeouts.
    threads: Arc<Semaphore>,
    model_call: Option<BoxFuture<'static, Input>>,
    /// Text of the latest model call streamed so far.
    streamed: Arc<Mutex<String>>,
    backoff: Option<BoxFuture<'static, ()>>,
    hooks: Option<BoxFuture<'static, Input>>,
    tools: JoinSet<(String, ToolOutput)>,
    calls: HashMap<Id, (String, Instant)>,
}

impl InFlight {
    pub(super) fn new(emitter: Arc<Emitter>, store: Arc<dyn Store>, max_concurrent: usize) -> Self {
        Self {
            emitter,
            store,
            max_concurrent,
            slots: Arc::new(Semaphore::new(max_concurrent.max(1))),
            threads: Arc::new(Semaphore::new(
                max_concurrent.max(1).saturating_mul(2).min(Semaphore::MAX_PERMITS),
            )),
            model_call: None,
            streamed: Arc::default(),
            backoff: None,
            hooks: None,
            tools: JoinSet::new(),
            calls: HashMap::new(),
        }
    }

    /// Starts a model call.
    pub(super) fn start_model_call(&mut self, call: ModelCall, span: Span, timer: StepTimer) {
        let (emitter, store) = (Arc::clone(&self.emitter), Arc::clone(&self.store));
        let streamed = Arc::<Mutex<String>>::default();
        self.streamed = Arc::clone(&streamed);
        let future = async move {
            let mut input = call.send(&emitter, &*store, &streamed).await;
            timer.finish(Part::ModelCall, None);
            if let Input::Failed(error) = &mut input {
                // A provider's message may have been cut in the middle of a secret.
                let redacted = emitter.redactor().redact_cut(&error.message, Cut::End).into_owned();
                error.message = redacted;
            }
            spans::record_model_call(&Span::current(), &input);
            input
        };
        self.model_call = Some(Box::pin(future.instrument(span)));
    }

    /// Returns the text of the latest model call streamed so far.
    pub(super) fn streamed(&self) -> String {
        self.streamed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Starts a backoff before a retry.
    pub(super) fn start_sleep(&mut self, pause: BoxFuture<'static, ()>) {
        self.backoff = Some(pause);
    }

    /// Starts hooks.
    pub(super) fn start_hooks(&mut self, future: BoxFuture<'static, Input>) {
        self.hooks = Some(future);
    }

    /// Starts a tool; it waits for a free slot. Hooks see its result before anything else does.
    pub(super) fn start(
        &mut self,
        (tool, span): (Option<Arc<dyn Tool>>, Span),
        invocation: Invocation,
        timeout: Duration,
        hooks: Option<Arc<RunHooks>>,
    ) {
        let (slots, threads) = (Arc::clone(&self.slots), Arc::clone(&self.threads));
        let (emitter, store) = (Arc::clone(&self.emitter), Arc::clone(&self.store));
        let id = invocation.call.id.clone();
        let work = async move {
            let (id, name) = (invocation.call.id.clone(), invocation.call.name.clone());
            let Some(tool) = tool else {
                return (
                    id,
                    ToolOutput::failure(ToolFailure::Unavailable, "the tool is no longer available"),
                );
            };
            let _slot = slots.acquire().await;
            let Ok(thread) = threads.try_acquire_owned() else {
                let message = "the tool was not started, because too many earlier calls of this run still block after \
                               their timeouts; continue without it";
                return (id, ToolOutput::failure(ToolFailure::Unavailable, message));
            };
            let timer = StepTimer::start(invocation.session_id, invocation.run_id);
            let hook_call = hooks.map(|hooks| (hooks, invocation.session_id, invocation.call.clone()));
            // A task of its own, so that the timeout also applies to a tool that blocks its thread.
            let call = async move {
                let _thread = thread;
                off_worker(tool.call(invocation)).await
            };
            let call = call.in_current_span();
            let call = AbortOnDropHandle::new(tokio::spawn(call));
            let called = tokio::time::timeout(timeout, call).await;
            timer.finish(Part::Tool, Some(&name));
            let output = match called {
                Ok(Ok(output)) => {
                    let output = redact_output(output, emitter.redactor().clone()).await;
                    let output = check_output(hook_call, output).await;
                    externalize_output(&*store, output, emitter.redactor().clone()).await
                }
                Ok(Err(_)) => ToolOutput::failure(ToolFailure::ExecutionFailed, "the tool crashed"),
                Err(_) => {
                    let timeout_ms = timeout.as_millis() as u64;
                    let message = format!("`{name}` took longer than {timeout_ms} ms and was stopped");
                    emitter.emit(AgentEvent::ToolExecutionTimedOut { id: id.clone(), name, timeout_ms });
                    ToolOutput::failure(ToolFailure::Timeout, &message)
                }
            };
            spans::record_tool_call(&Span::current(), &output);
            (id, output)
        };
        let handle = self.tools.spawn(work.instrument(span));
        self.calls.insert(handle.id(), (id, Instant::now()));
    }

    /// Cancels all work in flight.
    pub(super) fn cancel_all(&mut self) {
        let new = Self::new(Arc::clone(&self.emitter), Arc::clone(&self.store), self.max_concurrent);
        *self = Self { threads: Arc::clone(&self.threads), ..new };
    }

    /// Waits for the next result; forever if nothing is in flight.
    pub(super) async fn next(&mut self) -> Input {
        let Self { model_call, backoff, hooks, tools, calls, .. } = self;
        tokio::select! {
            input = wait_for(model_call) => {
                self.model_call = None;
                input
            }
            input = wait_for(hooks) => {
                self.hooks = None;
                input
            }
            () = wait_for(backoff) => {
                self.backoff = None;
                Input::SleepElapsed
            }
            Some(ended) = tools.join_next_with_id() => tool_done(calls, ended),
        }
    }
}

/// Waits for a call that may block its thread: while it is polled, another thread takes over the other tasks.
async fn off_worker(mut call: BoxFuture<'_, ToolOutput>) -> ToolOutput {
    let has_threads = Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
    std::future::poll_fn(|context| match has_threads {
        true => tokio::task::block_in_place(|| call.as_mut().poll(context)),
        false => call.as_mut().poll(context),
    })
    .await
}

/// Runs the hooks on a call's output. If a hook denies it, the denial replaces the output.
async fn check_output(
    hook_call: Option<(Arc<RunHooks>, SessionId, ToolCall)>,
    output: ToolOutput,
) -> ToolOutput {
    let has_hooks = |hooks: &RunHooks| hooks.points().has(HookPoint::PostToolExecution);
    let Some((hooks, session, call)) = hook_call.filter(|(hooks, ..)| has_hooks(hooks)) else {
        return output;
    };
    match hooks.call_hooks(&HookInvocation::for_output(session, &call, &output)).await {
        Ok(()) => output,
        Err(denial) => denial.output(),
    }
}

async fn wait_for<T>(slot: &mut Option<BoxFuture<'static, T>>) -> T {
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
        // A tool that panics counts as failed.
        Err(error) => (error.id(), ToolOutput::failure(ToolFailure::ExecutionFailed, "the tool crashed")),
    };
    let (id, started) = calls.remove(&task).unwrap_or_else(|| (String::new(), Instant::now()));
    Input::ToolDone { id, output, duration_ms: started.elapsed().as_millis() as u64 }
}
