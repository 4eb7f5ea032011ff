//! Built-in tools: the overhead of a run over a call, and of the sandbox over a command.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use meerkat::{Runtime, RuntimeOptions, SystemClock, ToolboxOptions};
use meerkat_core::{BlobId, BoxFuture, Invocation, Redactor, RunId, SessionId, Tool, ToolCall};
use meerkat_tools::{Sandbox, ShellOptions, StorageError, StoredBlob, ToolSelection, ToolStorage, Toolbox};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::caller::{BareCall, Caller, Watch, one_run};
use crate::floor::{dir, realm};
use crate::measure::{Effort, Failure, Times, compare, program, report};

/// Maximum overhead of a run for a tool call.
const DISPATCH: Duration = Duration::from_micros(50);
/// Maximum ratio of a command in the sandbox to the same one outside.
const SANDBOX: f64 = 1.5;

pub(crate) fn run(effort: Effort) -> Result<(), Failure> {
    println!("tools");
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    tokio.block_on(dispatch(effort))?;
    tokio.block_on(shell(effort))
}

/// Measures a call in a run, from its start to its result, against the tool alone.
async fn dispatch(effort: Effort) -> Result<(), Failure> {
    let toolbox = toolbox(&ToolboxOptions::default());
    let datetime = pick(&toolbox, ToolSelection::default(), "datetime")?;
    let caller = Arc::new(Caller::new(OneTool(datetime, json!({})), "datetime", json!({})));
    let dir = dir()?;
    let options = RuntimeOptions { models: vec![Arc::clone(&caller) as _], ..RuntimeOptions::default() };
    let runtime = Runtime::new(realm(dir.path())?, options);
    let watch = Arc::new(Watch::default());
    for _ in 0..effort.rounds(100) {
        one_run(&runtime, &caller, &watch).await?;
    }
    let ours = watch.times.lock().unwrap_or_else(PoisonError::into_inner).median();
    let alone = caller.times.lock().unwrap_or_else(PoisonError::into_inner).median();
    let added = ours.saturating_sub(alone);
    report(
        &format!("overhead of a run over a built-in tool (target {DISPATCH:?})"),
        &format!("{added:?} ({ours:?} vs. {alone:?})"),
    );
    if added > DISPATCH && effort == Effort::Full {
        return Err(format!("a run adds {added:?} to a call").into());
    }
    Ok(())
}

/// Measures the same command in the sandbox and outside, alternately.
async fn shell(effort: Effort) -> Result<(), Failure> {
    let dir = dir()?;
    let options = ToolboxOptions {
        workspace: Some(dir.path().to_owned()),
        home: Some(dir.path().to_owned()),
        supervisor: Some(program("rkat")?),
        ..ToolboxOptions::default()
    };
    let toolbox = toolbox(&options);
    let with = |sandbox| ToolSelection {
        shell: Some(ShellOptions { sandbox, ..ShellOptions::default() }),
        ..ToolSelection::default()
    };
    let args = json!({ "command": "ls -l /usr/bin > listing" });
    let confined = OneTool(pick(&toolbox, with(Sandbox::Workspace), "shell")?, args.clone());
    let free = OneTool(pick(&toolbox, with(Sandbox::Off), "shell")?, args);
    let (mut ours, mut theirs) = (Times::default(), Times::default());
    for _ in 0..effort.rounds(100) {
        theirs.push(timed(&free).await?);
        ours.push(timed(&confined).await?);
    }
    compare("a command in the sandbox, vs. one outside", (&ours, &theirs), SANDBOX, effort)
}

async fn timed(tool: &OneTool) -> Result<Duration, Failure> {
    let begin = std::time::Instant::now();
    tool.call().await?;
    Ok(begin.elapsed())
}

fn toolbox(options: &ToolboxOptions) -> Toolbox {
    Toolbox::new(options, Arc::new(Nothing), Arc::new(SystemClock), Redactor::default())
}

fn pick(toolbox: &Toolbox, wanted: ToolSelection, name: &str) -> Result<Arc<dyn Tool>, Failure> {
    let tools = toolbox.source(SessionId::from_uuid(Uuid::from_u128(1)), wanted).tools();
    tools.into_iter().find(|tool| tool.def().name == name).ok_or_else(|| format!("no tool `{name}`").into())
}

/// A tool with the arguments of its calls.
struct OneTool(Arc<dyn Tool>, Value);

impl BareCall for OneTool {
    fn call(&self) -> BoxFuture<'_, Result<(), Failure>> {
        let call = ToolCall { id: "c".to_owned(), name: self.0.def().name.clone(), args: self.1.clone() };
        let (session_id, run_id) =
            (SessionId::from_uuid(Uuid::from_u128(1)), RunId::from_uuid(Uuid::from_u128(2)));
        let invocation = Invocation { session_id, run_id, call, trace: None };
        Box::pin(async move {
            let output = self.0.call(invocation).await;
            if output.is_error { Err(format!("{:?}", output.content).into()) } else { Ok(()) }
        })
    }
}

/// Storage that stores nothing: these tools do not need it.
struct Nothing;

impl ToolStorage for Nothing {
    fn blob(&self, _: BlobId) -> BoxFuture<'_, Result<Option<StoredBlob>, StorageError>> {
        Box::pin(async { Ok(None) })
    }

    fn put_blob(&self, _: StoredBlob) -> BoxFuture<'_, Result<BlobId, StorageError>> {
        Box::pin(async { Err(StorageError("this storage is read-only".into())) })
    }

    fn tasks(&self, _: SessionId) -> BoxFuture<'_, Result<Vec<Vec<u8>>, StorageError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn add_task(
        &self,
        _: SessionId,
        _: String,
        _: Vec<u8>,
        _: usize,
    ) -> BoxFuture<'_, Result<bool, StorageError>> {
        Box::pin(async { Ok(true) })
    }

    fn put_task(&self, _: SessionId, _: String, _: Vec<u8>) -> BoxFuture<'_, Result<(), StorageError>> {
        Box::pin(async { Ok(()) })
    }
}
