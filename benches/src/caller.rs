//! A run whose model makes a call by itself on each request, and then has the run make the same one: the overhead of a
//! run is measured by alternating with the call alone.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use meerkat::{
    AgentEvent, Content, EventSink, Model, NewSessionOptions, RunControl, RunInput, Runtime, TurnOptions,
};
use meerkat_core::{
    AssistantBlock, BoxFuture, DeltaSink, ModelError, ModelErrorKind, ModelInfo, ModelRequest, ModelResponse,
    Provider, ResponseStatus, StopReason, Usage,
};
use serde_json::Value;

use crate::measure::{Failure, Times};

const MODEL: &str = "caller";
/// Number of calls per run; a conversation of typical length.
const CALLS: usize = 40;

/// A call without a run.
pub(crate) trait BareCall: Send + Sync {
    fn call(&self) -> BoxFuture<'_, Result<(), Failure>>;
}

/// Runs one series of calls on a runtime.
pub(crate) async fn one_run(runtime: &Runtime, caller: &Caller, watch: &Arc<Watch>) -> Result<(), Failure> {
    caller.left.store(CALLS, Ordering::Relaxed);
    let turn = TurnOptions {
        input: RunInput { prompt: Content::text("go"), ..RunInput::default() },
        model: Some(MODEL.to_owned()),
        builtins: Some(true),
        ..TurnOptions::default()
    };
    let control = RunControl { events: Some(watch.sink()), ..RunControl::default() };
    let done = runtime.sessions().create(NewSessionOptions::default(), turn, control).await?;
    let failed = watch.failed.lock().unwrap_or_else(PoisonError::into_inner).take();
    match (failed, done.report.tool_calls) {
        (Some(failure), _) => Err(format!("a call failed: {failure}").into()),
        (None, calls) if calls as usize != CALLS => Err(format!("only {calls} calls were made").into()),
        _ => Ok(()),
    }
}

/// Measures the time from the start of each call to its result, from the run's events.
#[derive(Default)]
pub(crate) struct Watch {
    begin: Mutex<Option<Instant>>,
    pub(crate) times: Mutex<Times>,
    failed: Mutex<Option<String>>,
}

impl Watch {
    fn sink(self: &Arc<Self>) -> EventSink {
        let watch = Arc::clone(self);
        Arc::new(move |event| {
            let mut begin = watch.begin.lock().unwrap_or_else(PoisonError::into_inner);
            match &event.payload {
                AgentEvent::ToolExecutionStarted { .. } => *begin = Some(Instant::now()),
                AgentEvent::ToolExecutionCompleted { is_error, result, .. } => {
                    if let Some(begin) = begin.take() {
                        watch.times.lock().unwrap_or_else(PoisonError::into_inner).push(begin.elapsed());
                    }
                    if *is_error {
                        *watch.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(result.clone());
                    }
                }
                _ => {}
            }
        })
    }
}

/// A model that makes the bare call, and then requests the same one from the run.
pub(crate) struct Caller {
    info: ModelInfo,
    alone: Box<dyn BareCall>,
    tool: &'static str,
    args: Value,
    left: AtomicUsize,
    pub(crate) times: Mutex<Times>,
}

impl Caller {
    pub(crate) fn new(alone: impl BareCall + 'static, tool: &'static str, args: Value) -> Self {
        let info = ModelInfo::new(MODEL, Provider::Other);
        let left = AtomicUsize::new(0);
        Self { info, alone: Box::new(alone), tool, args, left, times: Mutex::default() }
    }

    async fn answer(&self) -> Result<ModelResponse, Failure> {
        let left = self.left.load(Ordering::Relaxed);
        let (block, stop_reason) = if left == 0 {
            (AssistantBlock::Text { text: "done".to_owned(), meta: None }, StopReason::EndTurn)
        } else {
            self.left.store(left - 1, Ordering::Relaxed);
            let begin = Instant::now();
            self.alone.call().await?;
            self.times.lock().unwrap_or_else(PoisonError::into_inner).push(begin.elapsed());
            let (id, name) = (format!("c{left}"), self.tool.to_owned());
            let call = AssistantBlock::ToolUse { id, name, args: self.args.clone(), meta: None };
            (call, StopReason::ToolUse)
        };
        Ok(ModelResponse {
            blocks: vec![block],
            stop_reason,
            extent: ResponseStatus::Complete,
            usage: Usage::default(),
        })
    }
}

impl Model for Caller {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn generate<'a>(
        &'a self,
        _: &'a ModelRequest,
        _: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        let failed = |error: Failure| ModelError {
            kind: ModelErrorKind::BadRequest,
            provider: Provider::Other,
            status: None,
            retry_after: None,
            message: error.to_string(),
        };
        Box::pin(async move { self.answer().await.map_err(failed) })
    }
}
