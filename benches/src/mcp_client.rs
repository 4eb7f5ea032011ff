//! The MCP client: a call of a server's tool against the same call with the bare SDK, and how soon a run takes its
//! first step when servers do not answer.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use meerkat::mcp::config::ServerConfig;
use meerkat::mcp::{Launcher, ServerSet, SetOptions};
use meerkat::{Tool, ToolSource as _};
use meerkat_core::{Invocation, RunId, SessionId, ToolCall};
use rmcp::model::CallToolRequestParams;
use rmcp::service::{RoleClient, RunningService, ServiceExt as _};
use serde_json::json;
use uuid::Uuid;

use crate::floor::folder;
use crate::measure::{Effort, Failure, Times, compare, program, tell};

/// How soon a run takes its first step, whatever its servers do.
const FIRST_STEP: Duration = Duration::from_millis(100);
/// How many servers do not answer.
const SILENT: usize = 10;

pub(crate) fn run(effort: Effort) -> Result<(), Failure> {
    println!("mcp-client");
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    tokio.block_on(calls(effort))?;
    first_step(effort)
}

/// A call as a run makes it, against the same call with the SDK alone; each has a server process of its own.
async fn calls(effort: Effort) -> Result<(), Failure> {
    let bare = program("bare-mcp")?;
    let launcher = Launcher { supervisor: Some(program("rkat")?), ..Launcher::default() };
    let set = ServerSet::new(SetOptions { launcher, ..SetOptions::default() });
    set.add(ServerConfig::from_json(&json!({ "name": "bare", "command": bare }))?);
    set.wait(Duration::from_secs(30)).await;
    let tools = set.tools();
    let tool = tools.iter().find(|tool| tool.def().name == "bare__echo");
    let tool = Arc::clone(tool.ok_or_else(|| format!("the server is not ready: {:?}", set.views()))?);
    let mut floor = Floor::start(&bare).await?;
    let (mut ours, mut theirs) = (Times::default(), Times::default());
    for _ in 0..effort.rounds(4000) {
        let begin = Instant::now();
        call(&*tool).await?;
        ours.push(begin.elapsed());
        let begin = Instant::now();
        floor.call().await?;
        theirs.push(begin.elapsed());
    }
    set.close().await;
    compare("a tool call in a run, to the bare SDK", (&ours, &theirs), 1.3, effort)
}

async fn call(tool: &dyn Tool) -> Result<(), Failure> {
    let call =
        ToolCall { id: "c".to_owned(), name: tool.def().name.clone(), args: json!({ "text": "hello" }) };
    let (session_id, run_id) = (SessionId::from_uuid(Uuid::nil()), RunId::from_uuid(Uuid::nil()));
    let output = tool.call(Invocation { session_id, run_id, call }).await;
    if output.is_error { Err(format!("the call failed: {:?}", output.content).into()) } else { Ok(()) }
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

    async fn call(&mut self) -> Result<(), Failure> {
        let arguments = json!({ "text": "hello" }).as_object().cloned().unwrap_or_default();
        let params = CallToolRequestParams::new("echo").with_arguments(arguments);
        self.service.peer().call_tool(params).await?;
        Ok(())
    }
}

/// From the start of `rkat run` to its first step: with servers that never answer, and without any.
fn first_step(effort: Effort) -> Result<(), Failure> {
    let (silent, none) = (folder()?, folder()?);
    std::fs::create_dir_all(silent.path().join(".rkat"))?;
    let mut file = std::fs::File::create(silent.path().join(".rkat/mcp.toml"))?;
    for number in 0..SILENT {
        writeln!(file, "[[servers]]\nname = \"s{number}\"\ncommand = \"sleep\"\nargs = [\"60\"]")?;
    }
    let (mut with, mut without) = (Times::default(), Times::default());
    for _ in 0..effort.rounds(30) {
        with.push(until_step(silent.path())?);
        without.push(until_step(none.path())?);
    }
    let median = with.median();
    let shown = format!("{median:?} (without any: {:?})", without.median());
    tell(&format!("rkat run to its first step, {SILENT} silent servers (aim {FIRST_STEP:?})"), &shown);
    if median > FIRST_STEP && effort == Effort::Full {
        return Err(format!("the first step comes after {median:?}").into());
    }
    Ok(())
}

fn until_step(home: &Path) -> Result<Duration, Failure> {
    let mut command = Command::new(program("rkat")?);
    command.args(["run", "--verbose", "-m", "offline", "say hello"]).env("HOME", home).current_dir(home);
    command.env("XDG_DATA_HOME", home.join("data"));
    let begin = Instant::now();
    let mut run = Run(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?);
    let lines = BufReader::new(run.0.stderr.take().ok_or("no stderr")?).lines();
    for line in lines {
        if line?.contains("\"turn_started\"") {
            return Ok(begin.elapsed());
        }
    }
    Err("the run took no step".into())
}

/// A run, which is ended as soon as nobody looks; what it started ends with it.
struct Run(Child);

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
