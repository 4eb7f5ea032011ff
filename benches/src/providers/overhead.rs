//! The cost of a run beyond its necessary HTTP calls and commits.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use meerkat::operations::{self, Call};
use meerkat::ports::Tool;
use meerkat::{ConfigChange, RunControl, Runtime, RuntimeOptions, ToolOutput, ToolSource};
use meerkat_core::{BoxFuture, Invocation, ToolDef};
use serde_json::{Value, json};

use super::server::{Server, TOOL};
use crate::floor::{Floor, dir, realm};
use crate::measure::{Effort, Failure, Times, compare};

pub(super) fn run(effort: Effort) -> Result<(), Failure> {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let plain = one(&tokio, "a run of one step, vs. its call and commits", Vec::new(), effort);
    let tools: Vec<Arc<dyn ToolSource>> = vec![Arc::new(Looking)];
    plain.and(one(&tokio, "a run with a tool call, vs. its calls and commits", tools, effort))
}

fn one(
    tokio: &tokio::runtime::Runtime,
    what: &str,
    sources: Vec<Arc<dyn ToolSource>>,
    effort: Effort,
) -> Result<(), Failure> {
    let (ours_dir, floor_dir) = (dir()?, dir()?);
    let server = tokio.block_on(Server::start())?;
    let ours = Ours::open(tokio, ours_dir.path(), &server, sources)?;
    tokio.block_on(ours.run())?;
    let log = Path::new("bench").join("sessions.sqlite3-wal");
    let before = commits(&ours_dir.path().join(&log))?;
    server.requests();
    tokio.block_on(ours.run())?;
    let count = commits(&ours_dir.path().join(&log))? - before;
    let client = client()?;
    let floor = Floor::open(&floor_dir.path().join("floor.sqlite3"))?;
    let url = format!("{}/v1/messages", server.base_url);
    let least = Arc::new(Least { client, url, bodies: server.requests(), floor, commits: count });
    println!("  {} calls, {count} commits", least.bodies.len());
    let (mut our_times, mut floor_times) = (Times::default(), Times::default());
    for _ in 0..effort.rounds(40) {
        for _ in 0..5 {
            let ours = ours.clone();
            our_times.time(|| in_task(tokio, async move { ours.run().await }))?;
        }
        for _ in 0..5 {
            let least = Arc::clone(&least);
            floor_times.time(|| in_task(tokio, async move { least.run().await }))?;
        }
        server.requests();
    }
    compare(what, (&our_times, &floor_times), 1.5, effort)
}

/// Runs work in a task of the runtime, as a server does.
fn in_task(
    tokio: &tokio::runtime::Runtime,
    work: impl Future<Output = Result<(), Failure>> + Send + 'static,
) -> Result<(), Failure> {
    tokio.block_on(tokio.spawn(work))?
}

/// The full runtime, through its table of operations.
#[derive(Clone)]
struct Ours {
    runtime: Runtime,
}

impl Ours {
    fn open(
        tokio: &tokio::runtime::Runtime,
        dir: &Path,
        server: &Server,
        sources: Vec<Arc<dyn ToolSource>>,
    ) -> Result<Self, Failure> {
        let secrets: meerkat::SecretSource =
            Arc::new(|name| (name == "ANTHROPIC_API_KEY").then(|| "key".to_owned()));
        let options =
            RuntimeOptions { tool_sources: sources, secrets: Some(secrets), ..RuntimeOptions::default() };
        let runtime = Runtime::new(realm(dir)?, options);
        let Value::Object(patch) = json!({ "providers": { "anthropic": { "base_url": server.base_url } } })
        else {
            return Err("a patch is an object".into());
        };
        tokio.block_on(runtime.config().change(ConfigChange::Patch(patch), None))?;
        Ok(Self { runtime })
    }

    async fn run(&self) -> Result<(), Failure> {
        let operation = operations::find("meerkat_run").ok_or("unknown operation")?;
        let call = Call { runtime: self.runtime.clone(), control: RunControl::default() };
        let reply = operation.call(call, json!({ "prompt": "Is it all there?" })).await?.json;
        if reply["content"][0]["text"] == "It is all there." {
            Ok(())
        } else {
            Err(format!("unexpected reply: {reply}").into())
        }
    }
}

/// The same calls with the same bodies, the same number of commits, and nothing else.
struct Least {
    client: reqwest::Client,
    url: String,
    bodies: Vec<Vec<u8>>,
    floor: Floor,
    commits: usize,
}

impl Least {
    async fn run(&self) -> Result<(), Failure> {
        self.ask().await?;
        (0..self.commits).try_for_each(|_| self.floor.commit())
    }

    async fn ask(&self) -> Result<(), Failure> {
        for body in &self.bodies {
            let call = self.client.post(&self.url).header("content-type", "application/json");
            let call = call.header("x-api-key", "key").header("anthropic-version", "2023-06-01");
            let mut response = call.body(body.clone()).send().await?;
            while let Some(chunk) = response.chunk().await? {
                std::hint::black_box(chunk);
            }
        }
        Ok(())
    }
}

/// Creates a client with the providers' settings.
fn client() -> Result<reqwest::Client, Failure> {
    let builder = reqwest::Client::builder()
        .connect_timeout(Duration::from_secs(15))
        .tcp_nodelay(true)
        .redirect(reqwest::redirect::Policy::none());
    Ok(builder.build()?)
}

/// Counts the commits in the write-ahead log: each ends with a frame that contains the size of the database.
fn commits(log: &Path) -> Result<usize, Failure> {
    const HEADER: usize = 32;
    const FRAME: usize = 24;
    let bytes = std::fs::read(log)?;
    let number =
        |at: usize| -> Option<u32> { Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?)) };
    let page = number(8).ok_or("the log has no header")? as usize;
    let frames = (HEADER..bytes.len()).step_by(FRAME + page);
    // Frames of an older log have a different salt.
    let current = frames.take_while(|at| bytes.get(at + 8..at + 16) == bytes.get(16..24));
    Ok(current.filter(|at| number(at + 4).is_some_and(|size| size > 0)).count())
}

/// A source with a tool that returns the answer.
struct Looking;

impl ToolSource for Looking {
    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let def = ToolDef {
            name: TOOL.to_owned(),
            description: "Looks somewhere.".to_owned(),
            input_schema: json!({ "type": "object", "properties": { "where": { "type": "string" } } }),
        };
        vec![Arc::new(Look(def))]
    }
}

struct Look(ToolDef);

impl Tool for Look {
    fn def(&self) -> &ToolDef {
        &self.0
    }

    fn call(&self, _: Invocation) -> BoxFuture<'_, ToolOutput> {
        Box::pin(async { ToolOutput::text("everything") })
    }
}
