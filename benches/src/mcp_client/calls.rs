//! A call of a server's tool as a run makes it, from where the run starts it to where the run has its result, against
//! the same call with the bare SDK. Each side has a server process of its own.
//!
//! The model of the run makes the bare call whenever it is asked, and answers with a call for the run, so that the
//! two are measured in turns.

use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use meerkat::mcp::config::ServerConfig;
use meerkat::mcp::{Launcher, ServerState, SetOptions};
use meerkat::{
    AgentEvent, Content, EventSink, McpServers, McpServersOptions, Model, NewSessionOptions, RunControl,
    RunInput, Runtime, RuntimeOptions, TurnOptions,
};
use meerkat_core::{
    Answer, AssistantBlock, BoxFuture, DeltaSink, Extent, ModelError, ModelErrorKind, ModelInfo,
    ModelRequest, Provider, StopReason, Usage,
};
use rmcp::model::CallToolRequestParams;
use rmcp::service::{RoleClient, RunningService, ServiceExt as _};
use serde_json::json;

use crate::floor::{folder, realm};
use crate::measure::{Effort, Failure, Times, compare, program};

const MODEL: &str = "caller";
/// How many calls one run makes; a conversation of usual length.
const CALLS: usize = 40;

pub(super) async fn run(effort: Effort) -> Result<(), Failure> {
    let server = program("bare-mcp")?;
    let launcher = Launcher { supervisor: Some(program("rkat")?), ..Launcher::default() };
    let servers = McpServers::new(McpServersOptions {
        servers: vec![ServerConfig::from_json(&json!({ "name": "bare", "command": server }))?],
        set: SetOptions { launcher, ..SetOptions::default() },
        ..McpServersOptions::default()
    });
    servers.start();
    servers.shared().wait(Duration::from_secs(30)).await;
    let views = servers.shared().views();
    if views.iter().any(|view| view.state != ServerState::Ready) {
        return Err(format!("the server is not ready: {views:?}").into());
    }
    let caller = Arc::new(Caller::new(Floor::start(&server).await?));
    let folder = folder()?;
    let options = RuntimeOptions {
        models: vec![Arc::clone(&caller) as _],
        servers: Some(Arc::clone(&servers)),
        ..RuntimeOptions::default()
    };
    let runtime = Runtime::new(realm(folder.path())?, options);
    let watch = Arc::new(Watch::default());
    for _ in 0..effort.rounds(100) {
        one_run(&runtime, &caller, &watch).await?;
    }
    servers.close(Duration::from_secs(10)).await;
    let ours = watch.times.lock().unwrap_or_else(PoisonError::into_inner);
    let theirs = caller.times.lock().unwrap_or_else(PoisonError::into_inner);
    compare("a tool call in a run, to the bare SDK", (&ours, &theirs), 1.3, effort)
}

async fn one_run(runtime: &Runtime, caller: &Caller, watch: &Arc<Watch>) -> Result<(), Failure> {
    caller.left.store(CALLS, Ordering::Relaxed);
    let turn = TurnOptions {
        input: RunInput { prompt: Content::text("go"), ..RunInput::default() },
        model: Some(MODEL.to_owned()),
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

/// Takes the time from the start of each call to its result, as the run tells of them.
#[derive(Default)]
struct Watch {
    begin: Mutex<Option<Instant>>,
    times: Mutex<Times>,
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

/// A model that makes the bare call, and then has the run make the same one.
struct Caller {
    info: ModelInfo,
    floor: Floor,
    left: AtomicUsize,
    times: Mutex<Times>,
}

impl Caller {
    fn new(floor: Floor) -> Self {
        let info = ModelInfo::new(MODEL, Provider::Other);
        Self { info, floor, left: AtomicUsize::new(0), times: Mutex::default() }
    }

    async fn answer(&self) -> Result<Answer, Failure> {
        let left = self.left.load(Ordering::Relaxed);
        let (block, stop_reason) = if left == 0 {
            (AssistantBlock::Text { text: "done".to_owned(), meta: None }, StopReason::EndTurn)
        } else {
            self.left.store(left - 1, Ordering::Relaxed);
            let begin = Instant::now();
            self.floor.call().await?;
            self.times.lock().unwrap_or_else(PoisonError::into_inner).push(begin.elapsed());
            let (id, name) = (format!("c{left}"), "bare__echo".to_owned());
            let call = AssistantBlock::ToolUse { id, name, args: json!({ "text": "hello" }), meta: None };
            (call, StopReason::ToolUse)
        };
        Ok(Answer { blocks: vec![block], stop_reason, extent: Extent::Whole, usage: Usage::default() })
    }
}

impl Model for Caller {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn ask<'a>(&'a self, _: &'a ModelRequest, _: DeltaSink<'a>) -> BoxFuture<'a, Result<Answer, ModelError>> {
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

/// The SDK's client with a server of its own.
struct Floor {
    service: RunningService<RoleClient, ()>,
    _child: tokio::process::Child,
}

impl Floor {
    async fn start(server: &Path) -> Result<Self, Failure> {
        let mut child = tokio::process::Command::new(server)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let stdout = child.stdout.take().ok_or("no stdout")?;
        let stdin = child.stdin.take().ok_or("no stdin")?;
        Ok(Self { service: ().serve((stdout, stdin)).await?, _child: child })
    }

    async fn call(&self) -> Result<(), Failure> {
        let arguments = json!({ "text": "hello" }).as_object().cloned().unwrap_or_default();
        let params = CallToolRequestParams::new("echo").with_arguments(arguments);
        self.service.peer().call_tool(params).await?;
        Ok(())
    }
}
