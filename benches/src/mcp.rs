//! The MCP server: startup, tool list, memory, and many clients over HTTP.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::floor::{Floor, dir};
use crate::measure::{Effort, Failure, Times, allocated, compare, program, report, resident};

/// Number of concurrent clients, and runs per client.
const CLIENTS: usize = 200;
const RUNS: usize = 5;
/// Number of commits per run: the opening, and the final response.
const COMMITS: usize = 2;
/// Limits for the memory of a server after runs, in MB; and runs per client for the second one, with full effort.
const RUN_MEMORY: f64 = 25.0;
const LONG_RUNS: usize = 45;
const LONG_RUN_MEMORY: f64 = 40.0;
/// Time after which a server must have returned free memory to the system.
const TRIM_TIMEOUT: Duration = Duration::from_secs(40);
/// Memory limit for an idle server, in MB.
const MEMORY: f64 = 15.0;
/// Number of clients that do not read, and of sessions created meanwhile, with the limit for the server's memory in MB.
const IDLE_CLIENTS: usize = 1000;
const IDLE_MEMORY: f64 = 100.0;
/// Time limit for a list of all tools.
const LIST: Duration = Duration::from_millis(2);

pub(crate) fn run(effort: Effort) -> Result<(), Failure> {
    println!("mcp");
    start(effort)?;
    tools(effort)?;
    many_clients(effort)?;
    idle_clients(effort)
}

/// Measures from the start of the server to its first response, against the smallest server with the same SDK.
fn start(effort: Effort) -> Result<(), Failure> {
    let (ours, bare) = (program("rkat-mcp")?, program("bare-mcp")?);
    let dir = dir()?;
    let (mut our_times, mut bare_times) = (Times::default(), Times::default());
    let (mut our_memory, mut bare_memory) = (0, 0);
    for _ in 0..effort.rounds(60) {
        let mut command = Command::new(&ours);
        command.arg("--state-root").arg(dir.path());
        our_memory = our_times.time(|| Server::start(&mut command))?.memory();
        bare_memory = bare_times.time(|| Server::start(&mut Command::new(&bare)))?.memory();
    }
    compare("rkat-mcp to its first response, vs. a bare server", (&our_times, &bare_times), 2.0, effort)?;
    let megabytes = our_memory as f64 / 1024.0;
    report(&format!("memory of idle rkat-mcp (target {MEMORY:.0} MB)"), &format!("{megabytes:.1} MB"));
    if megabytes > MEMORY && effort != Effort::Smoke {
        return Err(format!("memory of idle rkat-mcp: {megabytes:.1} MB is over {MEMORY:.0}").into());
    }
    report("memory of an idle bare server", &format!("{:.1} MB", bare_memory as f64 / 1024.0));
    Ok(())
}

/// Measures a list of all tools, over stdio.
fn tools(effort: Effort) -> Result<(), Failure> {
    let dir = dir()?;
    let mut server = Server::start(Command::new(program("rkat-mcp")?).arg("--state-root").arg(dir.path()))?;
    let mut times = Times::default();
    let mut count = 0;
    for id in 0..effort.rounds(500) {
        let list = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list" });
        let listed = times.time(|| server.ask(&list))?;
        count = listed["result"]["tools"].as_array().map_or(0, Vec::len);
    }
    let median = times.median();
    report(&format!("tools/list of {count} tools (target {LIST:?})"), &format!("{median:?}"));
    if median > LIST && effort == Effort::Full {
        return Err(format!("tools/list takes {median:?}").into());
    }
    Ok(())
}

/// Measures many clients over HTTP, each with runs on the offline model, against the same number of bare commits.
fn many_clients(effort: Effort) -> Result<(), Failure> {
    let dir = dir()?;
    let floor = Floor::open(&dir.path().join("floor.sqlite3"))?;
    let mut bare = Times::default();
    for _ in 0..effort.rounds(400) {
        bare.time(|| (0..COMMITS).try_for_each(|_| floor.commit()))?;
    }
    let server = Http::start(Command::new(program("rkat-mcp")?).arg("--state-root").arg(dir.path()))?;
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let runs = effort.rounds(RUNS);
    let begin = Instant::now();
    let times = tokio.block_on(clients(&server.address, runs))?;
    let count = CLIENTS * runs;
    let each = begin.elapsed().as_secs_f64() / count as f64;
    let ratio = bare.median().as_secs_f64() / each;
    report(&format!("{count} runs from {CLIENTS} clients over HTTP"), "no error");
    report("their 99th percentile", &format!("{:?}", times.percentile(99)));
    report("their throughput, vs. their commits alone", &format!("{ratio:.2} x ({:.0} runs/s)", 1.0 / each));
    server.check_memory(&format!("{count} runs"), RUN_MEMORY, effort)?;
    if effort == Effort::Full {
        tokio.block_on(clients(&server.address, LONG_RUNS))?;
        let count = count + CLIENTS * LONG_RUNS;
        server.check_memory(&format!("{count} runs"), LONG_RUN_MEMORY, effort)?;
    }
    Ok(())
}

/// Performs runs of concurrent clients, and returns their durations.
async fn clients(address: &str, runs: usize) -> Result<Times, Failure> {
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..CLIENTS {
        clients.spawn(client(address.to_owned(), runs));
    }
    let mut all = Times::default();
    while let Some(times) = clients.join_next().await {
        times??.into_iter().for_each(|time| all.push(time));
    }
    Ok(all)
}

/// Measures memory while clients with an open stream that never read are notified of new sessions.
fn idle_clients(effort: Effort) -> Result<(), Failure> {
    let dir = dir()?;
    let server = Http::start(Command::new(program("rkat-mcp")?).arg("--state-root").arg(dir.path()))?;
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let count = effort.rounds(IDLE_CLIENTS);
    let streams = tokio.block_on(async {
        let mut streams = Vec::new();
        for _ in 0..count {
            streams.push(idle_client(&server.address).await?);
        }
        client(server.address.clone(), count).await?;
        Ok::<_, Failure>(streams)
    })?;
    let megabytes = server.memory() as f64 / 1024.0;
    drop(streams);
    let what = format!("memory with {count} idle clients and {count} new sessions");
    report(&format!("{what} (target {IDLE_MEMORY:.0} MB)"), &format!("{megabytes:.1} MB"));
    if megabytes > IDLE_MEMORY && effort == Effort::Full {
        return Err(format!("{what}: {megabytes:.1} MB is over {IDLE_MEMORY:.0}").into());
    }
    Ok(())
}

/// Completes the handshake of a client and returns its stream, from which nothing is read.
async fn idle_client(address: &str) -> Result<tokio::net::TcpStream, Failure> {
    let client = json!({ "name": "bench", "version": "0" });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let mut session = String::new();
    for message in [hello.to_string(), ready.to_string()] {
        let mut stream = tokio::net::TcpStream::connect(address).await?;
        let head = format!(
            "POST /mcp HTTP/1.0\r\nhost: {address}\r\naccept: application/json, text/event-stream\r\n\
             content-type: application/json\r\n{session}content-length: {}\r\n\r\n{message}",
            message.len()
        );
        stream.write_all(head.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let id = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
        id.iter().for_each(|id| session = format!("mcp-session-id: {id}\r\n"));
    }
    let mut stream = tokio::net::TcpStream::connect(address).await?;
    let head = format!("GET /mcp HTTP/1.1\r\nhost: {address}\r\naccept: text/event-stream\r\n{session}\r\n");
    stream.write_all(head.as_bytes()).await?;
    Ok(stream)
}

/// Performs runs sequentially, and returns the duration of each.
async fn client(address: String, runs: usize) -> Result<Vec<Duration>, std::io::Error> {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({ "name": "meerkat_run", "arguments": { "prompt": "say hello" }, "_meta": meta });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string();
    let request = format!(
        "POST /mcp HTTP/1.0\r\nhost: {address}\r\naccept: application/json, text/event-stream\r\n\
         content-type: application/json\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\n\
         mcp-name: meerkat_run\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut times = Vec::with_capacity(runs);
    for _ in 0..runs {
        let begin = Instant::now();
        let mut stream = tokio::net::TcpStream::connect(&address).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        times.push(begin.elapsed());
        if !answer.contains("\"structuredContent\"") {
            return Err(std::io::Error::other(format!("a run failed: {answer}")));
        }
    }
    Ok(times)
}

/// A server over stdio, after the handshake.
pub(crate) struct Server {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Server {
    pub(crate) fn start(command: &mut Command) -> Result<Self, Failure> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let stdin = child.stdin.take().ok_or("no stdin")?;
        let stdout = BufReader::new(child.stdout.take().ok_or("no stdout")?);
        let mut server = Self { child, stdin, stdout };
        let client = json!({ "name": "bench", "version": "0" });
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
        let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let answer = server.ask(&hello)?;
        if answer["result"]["serverInfo"].is_null() {
            return Err(format!("unexpected response to initialize: {answer}").into());
        }
        Ok(server)
    }

    pub(crate) fn ask(&mut self, request: &Value) -> Result<Value, Failure> {
        writeln!(self.stdin, "{request}")?;
        let mut answer = String::new();
        self.stdout.read_line(&mut answer)?;
        Ok(serde_json::from_str(&answer)?)
    }

    /// Returns the server's memory without the pages of the executable, in KiB.
    pub(crate) fn allocated(&self) -> u64 {
        allocated(self.child.id()).unwrap_or(0)
    }

    pub(crate) fn memory(&self) -> u64 {
        resident(self.child.id()).unwrap_or(0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server over HTTP.
struct Http {
    child: Child,
    address: String,
}

impl Http {
    fn start(command: &mut Command) -> Result<Self, Failure> {
        let mut child =
            command.args(["--http", "127.0.0.1:0", "--no-token"]).stderr(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stderr.take().ok_or("no stderr")?).read_line(&mut line)?;
        let address = line.split("http://").nth(1).and_then(|rest| rest.trim().strip_suffix("/mcp"));
        let address = address.ok_or_else(|| format!("no listening address in: {line}"))?.to_owned();
        Ok(Self { child, address })
    }

    /// Reports the memory after some work; with full effort, waits until it is within a limit.
    fn check_memory(&self, work: &str, limit: f64, effort: Effort) -> Result<(), Failure> {
        let begin = Instant::now();
        let megabytes = || self.memory() as f64 / 1024.0;
        while effort == Effort::Full && megabytes() > limit && begin.elapsed() < TRIM_TIMEOUT {
            std::thread::sleep(Duration::from_millis(500));
        }
        let found = megabytes();
        report(&format!("memory of rkat-mcp after {work} (target {limit:.0} MB)"), &format!("{found:.1} MB"));
        if found > limit && effort == Effort::Full {
            return Err(format!("memory of rkat-mcp after {work}: {found:.1} MB is over {limit:.0}").into());
        }
        Ok(())
    }

    fn memory(&self) -> u64 {
        resident(self.child.id()).unwrap_or(0)
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
