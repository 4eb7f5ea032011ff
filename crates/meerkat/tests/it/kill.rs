//! Processes that are killed while running.
//!
//! A child of this test binary runs a script of runs with tools. It is killed with SIGKILL: by itself whenever the
//! driver reads the clock, which is before and after each commit, and by its parent at random times. After each death,
//! the store must be intact, every result that the child had announced must be stored, no tool may have run twice, and
//! the session must be resumable immediately.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use meerkat::{
    AgentEvent, Clock, Content, EventEnvelope, Message, NewSessionOptions, Outcome, RunControl, RunInput,
    Runtime, RuntimeOptions, SessionId, SessionQuery, SystemClock, ToolOutput, TurnOptions,
};
use meerkat_core::{BoxFuture, Timestamp};
use meerkat_testkit::{FnTool, Scratch, Tools};
use serde_json::{Value, json};

/// Number of times the parent kills the child at a random time.
const RANDOM_KILLS: u64 = 150;

/// Instructions for the child.
#[derive(Clone)]
struct Orders {
    state_root: PathBuf,
    effects: PathBuf,
    /// First number its tools may use; each number may be used only once.
    first: u64,
    /// Number of the clock reading at which it kills itself; 0 for never.
    kill_at: u64,
}

#[test]
fn killed_process_loses_and_repeats_nothing() {
    let scratch = Scratch::new();
    let mut ledger = Ledger::new(&scratch);
    let mut deaths = 0;
    for kill_at in 1.. {
        let ended = ledger.run_child(kill_at, None);
        ledger.check();
        if ended == ChildEnd::Completed {
            break;
        }
        deaths += 1;
    }
    assert!(deaths > 50, "the script has only {deaths} points to be killed at");
    let mut random = 0x2545_F491_4F6C_DD1D_u64;
    for _ in 0..RANDOM_KILLS {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let ended = ledger.run_child(0, Some(Duration::from_micros(random % 40_000)));
        ledger.check();
        deaths += u64::from(ended == ChildEnd::Killed);
    }
    assert!(deaths >= 200, "only {deaths} deaths");
}

/// End of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChildEnd {
    Killed,
    Completed,
}

/// The parent's record of what must be stored.
struct Ledger<'a> {
    scratch: &'a Scratch,
    next: u64,
    /// Results that the child announced, by session.
    announced: BTreeMap<SessionId, Vec<String>>,
}

impl<'a> Ledger<'a> {
    fn new(scratch: &'a Scratch) -> Self {
        Self { scratch, next: 1, announced: BTreeMap::new() }
    }

    fn effects(&self) -> PathBuf {
        self.scratch.join("effects.log")
    }

    /// Runs a child until it is killed or done, and records the results it announced.
    fn run_child(&mut self, kill_at: u64, kill_after: Option<Duration>) -> ChildEnd {
        let orders = Orders {
            state_root: self.scratch.path().to_owned(),
            effects: self.effects(),
            first: self.next,
            kill_at,
        };
        self.next += 100;
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kill::killed_child", "--ignored", "--nocapture"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(orders.write().as_bytes()).unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let reader = std::thread::spawn(move || output.lines().map_while(Result::ok).collect::<Vec<_>>());
        if let Some(after) = kill_after {
            std::thread::sleep(after);
            let _ = child.kill();
        }
        let status = child.wait().unwrap();
        for line in reader.join().unwrap() {
            if let Some((session, text)) = line.strip_prefix("announced ").and_then(|l| l.split_once(' ')) {
                self.announced.entry(session.parse().unwrap()).or_default().push(text.to_owned());
            }
        }
        if status.success() { ChildEnd::Completed } else { ChildEnd::Killed }
    }

    /// Checks the state that the killed child left behind, and resumes its session.
    fn check(&self) {
        meerkat_store::check(&self.scratch.join("test/sessions.sqlite3")).unwrap_or_else(|error| {
            // A child killed before it created a store leaves none.
            assert!(self.announced.is_empty(), "the store is not intact: {error}");
        });
        self.check_effects();
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tokio.block_on(async {
            let runtime = Runtime::new(self.scratch.realm(), RuntimeOptions::default());
            let found = runtime.sessions().list(SessionQuery::default()).await.unwrap();
            for (session, announced) in &self.announced {
                assert!(found.iter().any(|view| view.id == *session), "session {session} is lost");
                let messages = runtime.sessions().history(*session, 0, None).await.unwrap().messages;
                let stored = results(&messages);
                for result in announced {
                    assert!(stored.contains(result), "{session} lost the committed result {result}");
                }
            }
            if let Some(last) = found.first() {
                check_resumable(&runtime, last.id).await;
            }
        });
    }

    fn check_effects(&self) {
        let log = std::fs::read_to_string(self.effects()).unwrap_or_default();
        let mut seen = BTreeMap::new();
        for line in log.lines() {
            *seen.entry(line).or_insert(0) += 1;
        }
        let twice: Vec<_> = seen.iter().filter(|(_, times)| **times > 1).collect();
        assert!(twice.is_empty(), "tools ran twice: {twice:?}");
    }
}

/// Runs the session once more: it must succeed, and its transcript must be complete.
async fn check_resumable(runtime: &Runtime, id: SessionId) {
    let done = runtime.sessions().start_turn(id, prompt("say still here"), RunControl::default()).await;
    let Outcome::Completed(answer) = done.unwrap().report.outcome else { panic!("the run did not complete") };
    assert_eq!(answer.text, "still here");
    let messages = runtime.sessions().history(id, 0, None).await.unwrap().messages;
    for (index, message) in messages.iter().enumerate() {
        let calls: Vec<_> = message.tool_calls().into_iter().map(|call| call.id).collect();
        let answered: Vec<_> = match messages.get(index + 1) {
            Some(Message::ToolResults { results, .. }) => {
                results.iter().map(|result| result.tool_use_id.clone()).collect()
            }
            _ => Vec::new(),
        };
        assert_eq!(answered, calls, "message {index} of {id}");
    }
}

fn results(messages: &[Message]) -> Vec<String> {
    let texts = |message: &Message| match message {
        Message::ToolResults { results, .. } => results.iter().map(|r| r.content.to_text()).collect(),
        _ => Vec::new(),
    };
    messages.iter().flat_map(texts).collect()
}

fn prompt(text: &str) -> TurnOptions {
    let input = RunInput { prompt: Content::text(text), ..RunInput::default() };
    TurnOptions { input, ..TurnOptions::default() }
}

#[test]
#[ignore = "this is the child that the test above starts and kills"]
fn killed_child() {
    let orders = Orders::read();
    let scratch_options =
        meerkat::RealmOptions { state_root: orders.state_root.clone(), ..Scratch::new().options() };
    let realm = meerkat::Realm::open(scratch_options).unwrap();
    let options = RuntimeOptions {
        tool_sources: vec![Tools::new([effect(&orders.effects)])],
        clock: Some(Arc::new(KillClock { readings: AtomicU64::new(0), kill_at: orders.kill_at })),
        ..RuntimeOptions::default()
    };
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    tokio.block_on(work(&Runtime::new(realm, options), orders.first));
}

/// Performs three runs of one session: with one tool, several concurrent ones, and several steps.
async fn work(runtime: &Runtime, first: u64) {
    let call = |n: u64| format!("call effect {{\"n\":{}}}", first + n);
    let control = || RunControl { events: Some(Arc::new(announce)), ..RunControl::default() };
    let one = prompt(&format!("{}\nthen\nsay one", call(1)));
    let done = runtime.sessions().create(NewSessionOptions::default(), one, control()).await.unwrap();
    let id = done.session_id;
    let two = prompt(&format!("{}\n{}\n{}\nthen\n{}\nthen\nsay two", call(2), call(3), call(4), call(5)));
    runtime.sessions().start_turn(id, two, control()).await.unwrap();
    let three = prompt(&format!("say three\n{}\n{}", call(6), call(7)));
    runtime.sessions().start_turn(id, three, control()).await.unwrap();
}

/// Reports committed results to the parent.
fn announce(event: EventEnvelope) {
    if let AgentEvent::ToolResultReceived { content, .. } = event.payload {
        let session = event.source_id.trim_start_matches("session:").to_owned();
        let text = Content::from(content).to_text();
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout, "\nannounced {session} {text}").and_then(|()| stdout.flush()).unwrap();
    }
}

/// A tool whose effects can be counted.
fn effect(log: &Path) -> Arc<dyn meerkat::ports::Tool> {
    let log = log.to_owned();
    FnTool::new("effect", move |invocation| {
        let log = log.clone();
        async move {
            let n = &invocation.call.args["n"];
            let mut file = OpenOptions::new().create(true).append(true).open(log).unwrap();
            file.write_all(format!("{n}\n").as_bytes()).unwrap();
            ToolOutput::text(format!("effect-{n}"))
        }
    })
}

/// A clock that kills its process after a number of readings.
struct KillClock {
    readings: AtomicU64,
    kill_at: u64,
}

impl Clock for KillClock {
    fn now(&self) -> Timestamp {
        if self.readings.fetch_add(1, Ordering::SeqCst) + 1 == self.kill_at {
            let me = rustix::process::getpid();
            rustix::process::kill_process(me, rustix::process::Signal::KILL).unwrap();
        }
        SystemClock.now()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'_, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

impl Orders {
    fn write(&self) -> String {
        json!({
            "state_root": self.state_root,
            "effects": self.effects,
            "first": self.first,
            "kill_at": self.kill_at,
        })
        .to_string()
    }

    fn read() -> Self {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).unwrap();
        let orders: Value = serde_json::from_str(&text).unwrap();
        Self {
            state_root: orders["state_root"].as_str().unwrap().into(),
            effects: orders["effects"].as_str().unwrap().into(),
            first: orders["first"].as_u64().unwrap(),
            kill_at: orders["kill_at"].as_u64().unwrap(),
        }
    }
}
