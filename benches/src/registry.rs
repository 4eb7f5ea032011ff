//! The hub and the registry: calls between workers, durable registrations, and the index of many skills.

use std::time::{Duration, Instant};

use futures_util::{SinkExt as _, StreamExt as _};
use meerkat::hub::{Access, Client, ClientOptions, Hub, LocalFunction, bind};
use meerkat::{RealmRegistry, Runtime, RuntimeOptions};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{accept_async, client_async};

use crate::floor::{self, Floor};
use crate::measure::{Effort, Failure, Times, compare};
use crate::skills::within;

/// Number of concurrent callers.
const CALLERS: usize = 64;
/// Maximum ratio of a call or a registration to the floor: half of its rate.
const RATIO: f64 = 2.0;
/// Number of skills in the index, and time limit for reading it.
const SKILLS: usize = 10_000;
const INDEX: Duration = Duration::from_millis(20);
const TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) fn run(effort: Effort) -> Result<(), Failure> {
    println!("registry");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(calls(effort));
    let outcome = outcome.and(runtime.block_on(registrations(effort)));
    outcome.and(runtime.block_on(index(effort)))
}

/// Measures a call from worker to hub to worker and back, against an echoed message.
async fn calls(effort: Effort) -> Result<(), Failure> {
    let dir = floor::dir()?;
    let runtime = Runtime::new(floor::realm(dir.path())?, RuntimeOptions::default());
    let hosted = runtime.host_hub(|_| ()).await?;
    let url = serve(hosted.hub().clone())?;
    let callee = connect(&url, "callee").await?;
    callee.register_function(LocalFunction::new("bench::echo", |call| async move { Ok(call.data) }));
    let caller = connect(&url, "caller").await?;
    let mut echo = Echo::new().await?;
    let count = effort.rounds(20_000);
    let data = json!({ "text": "a payload that is about as long as one line of text" });
    let (mut ours, mut theirs) = (Times::default(), Times::default());
    for _ in 0..effort.rounds(10) {
        theirs.push(echo.exchange(&data.to_string(), count).await?);
        ours.push(call_all(&caller, "bench::echo", count, |_| data.clone()).await?);
    }
    compare("a call from worker to worker, vs. a bare echo", (&ours, &theirs), RATIO, effort)
}

/// Measures durable registrations, against bare SQLite commits.
async fn registrations(effort: Effort) -> Result<(), Failure> {
    let dir = floor::dir()?;
    let runtime = Runtime::new(floor::realm(dir.path())?, RuntimeOptions::default());
    let hosted = runtime.host_hub(|_| ()).await?;
    let url = serve(hosted.hub().clone())?;
    let caller = connect(&url, "caller").await?;
    let floor = Floor::open(&dir.path().join("floor.sqlite3"))?;
    let count = effort.rounds(2_000);
    let (mut ours, mut theirs) = (Times::default(), Times::default());
    for _ in 0..effort.rounds(5) {
        theirs.time(|| (0..count).try_for_each(|_| floor.commit()))?;
        let skill = |number: usize| json!({ "id": format!("skill-{number}"), "skill": "# Title\n\nText.\n" });
        ours.push(call_all(&caller, "skills::register", count, skill).await?);
    }
    compare("a durable registration, vs. a bare commit", (&ours, &theirs), RATIO, effort)
}

/// Measures reading the index of many skills after each registration.
async fn index(effort: Effort) -> Result<(), Failure> {
    let dir = floor::dir()?;
    let runtime = Runtime::new(floor::realm(dir.path())?, RuntimeOptions::default());
    let hosted = runtime.host_hub(|_| ()).await?;
    let url = serve(hosted.hub().clone())?;
    let caller = connect(&url, "caller").await?;
    let body = format!("# A title\n\n{}\n", "What it is good for. ".repeat(40));
    let skill = |number: usize| json!({ "id": format!("skill-{number}"), "skill": body });
    call_all(&caller, "skills::register", SKILLS, skill).await?;
    let registry = runtime.registry().await?;
    read_index(&registry).await?;
    let mut times = Times::default();
    for round in 0..effort.rounds(20) {
        call_all(&caller, "skills::register", 1, |_| skill(round * 100)).await?;
        let start = Instant::now();
        let lines = read_index(&registry).await?;
        times.push(start.elapsed());
        if lines < SKILLS {
            return Err(format!("the index has {lines} lines").into());
        }
    }
    within("the index of 10,000 skills after a change", times.median(), INDEX, effort)
}

/// Reads the index; returns its number of lines.
async fn read_index(registry: &RealmRegistry) -> Result<usize, Failure> {
    let read = registry.call("skills::resources-read", json!({ "uri": "iii://skills" })).await?;
    Ok(read["contents"][0]["text"].as_str().map_or(0, |text| text.lines().count()))
}

/// Serves the hub on a free port, for as long as the process lives.
fn serve(hub: Hub) -> Result<String, Failure> {
    let access = Access::default();
    let listener = bind("127.0.0.1:0", &access)?;
    let url = format!("ws://{}", listener.local_addr()?);
    tokio::spawn(async move { hub.serve(listener, access, std::future::pending()).await });
    Ok(url)
}

async fn connect(url: &str, name: &str) -> Result<Client, Failure> {
    let options = ClientOptions { url: url.to_owned(), token: None, name: name.to_owned() };
    Ok(Client::connect(options).await?)
}

/// Makes `count` calls from all callers; returns their duration.
async fn call_all(
    client: &Client,
    function: &'static str,
    count: usize,
    data: impl Fn(usize) -> Value,
) -> Result<Duration, Failure> {
    let mut callers = JoinSet::new();
    let start = Instant::now();
    for caller in 0..CALLERS {
        let inputs: Vec<Value> = (caller..count).step_by(CALLERS).map(&data).collect();
        let client = client.clone();
        callers.spawn(async move {
            for input in inputs {
                client.call(function, &input, TIMEOUT).await?;
            }
            Ok::<(), meerkat::hub::CallError>(())
        });
    }
    while let Some(done) = callers.join_next().await {
        done??;
    }
    Ok(start.elapsed())
}

/// A WebSocket whose other side echoes every message.
struct Echo(tokio_tungstenite::WebSocketStream<TcpStream>);

impl Echo {
    async fn new() -> Result<Self, Failure> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let mut socket = accept_async(stream).await?;
            while let Some(message) = socket.next().await {
                socket.send(message?).await?;
            }
            Ok::<(), Failure>(())
        });
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self(client_async(format!("ws://{address}"), stream).await?.0))
    }

    /// Sends `count` messages, with one in flight per caller.
    async fn exchange(&mut self, text: &str, count: usize) -> Result<Duration, Failure> {
        let start = Instant::now();
        for _ in 0..CALLERS.min(count) {
            self.0.send(Message::text(text)).await?;
        }
        for done in 0..count {
            self.0.next().await.ok_or("the echo is gone")??;
            if done + CALLERS < count {
                self.0.send(Message::text(text)).await?;
            }
        }
        Ok(start.elapsed())
    }
}
