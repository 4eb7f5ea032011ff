//! Shared setup: a realm of the build's kind, a scripted model, and a runtime.

use std::sync::Arc;

use meerkat::operations::{Call, find};
use meerkat::{
    ConfigAccess, ConfigChange, Content, Error, ErrorKind, NewSessionOptions, Outcome, Realm, RunControl,
    RunHandle, RunInput, RunRequest, RunResult, Runtime, RuntimeOptions, SessionId, SessionService, Target,
    TurnOptions,
};
use meerkat_contracts::ToolHandler;
use meerkat_core::{Clock, Tool, ToolResult};
use meerkat_testkit::{Recorder, Scratch, Script, ScriptedModel, Tools, message_line};
use serde_json::{Map, Value};
use tokio::task::JoinHandle;

/// The columns of the capability matrix. Providers do not affect it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    Minimal,
    Persistent,
    Compacting,
    Full,
}

impl Profile {
    /// Profile of this build.
    pub(crate) const THIS: Self =
        match (cfg!(feature = "session-store"), cfg!(feature = "session-compaction")) {
            (false, false) => Self::Minimal,
            (true, false) => Self::Persistent,
            (false, true) => Self::Compacting,
            (true, true) => Self::Full,
        };

    pub(crate) fn is_durable(self) -> bool {
        matches!(self, Self::Persistent | Self::Full)
    }

    pub(crate) fn compacts(self) -> bool {
        matches!(self, Self::Compacting | Self::Full)
    }
}

/// A runtime, its model, and the location of its realm.
pub(crate) struct World {
    pub(crate) runtime: Runtime,
    pub(crate) model: Arc<ScriptedModel>,
    scratch: Arc<Scratch>,
}

/// A run in progress.
pub(crate) type Running = JoinHandle<Result<RunResult, Error>>;

impl World {
    /// Creates a realm on disk if the build supports it, and in memory otherwise.
    pub(crate) fn new(script: impl IntoIterator<Item = Script>) -> Self {
        Self::with(ScriptedModel::new(script), [])
    }

    /// Like `new`, with this model and these tools.
    pub(crate) fn with(model: Arc<ScriptedModel>, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        Self::open(Arc::new(Scratch::new()), model, tools)
    }

    /// Creates a realm in memory. It uses no other thread than the test's, so time can be paused.
    pub(crate) fn in_memory(
        script: impl IntoIterator<Item = Script>,
        tools: impl IntoIterator<Item = Arc<dyn Tool>>,
        clock: Option<Arc<dyn Clock>>,
    ) -> Self {
        let model = ScriptedModel::new(script);
        let options = RuntimeOptions {
            models: vec![Arc::clone(&model) as _],
            tool_sources: vec![Tools::new(tools)],
            clock,
            ..RuntimeOptions::default()
        };
        let runtime = Runtime::ephemeral(options).unwrap();
        Self { runtime, model, scratch: Arc::new(Scratch::new()) }
    }

    /// Creates a realm in memory whose operations are called by a client that does not own it.
    pub(crate) fn for_client(
        model: Arc<ScriptedModel>,
        tools: impl IntoIterator<Item = Arc<dyn Tool>>,
    ) -> Self {
        Self::for_caller(ConfigAccess::Client, model, tools)
    }

    /// Creates a realm in memory whose operations are called with this access.
    pub(crate) fn for_caller(
        config_access: ConfigAccess,
        model: Arc<ScriptedModel>,
        tools: impl IntoIterator<Item = Arc<dyn Tool>>,
    ) -> Self {
        let options = RuntimeOptions {
            models: vec![Arc::clone(&model) as _],
            tool_sources: vec![Tools::new(tools)],
            config_access,
            ..RuntimeOptions::default()
        };
        let runtime = Runtime::ephemeral(options).unwrap();
        Self { runtime, model, scratch: Arc::new(Scratch::new()) }
    }

    /// Wraps an existing runtime.
    #[cfg(feature = "mcp")]
    pub(crate) fn from_runtime(runtime: Runtime, model: Arc<ScriptedModel>) -> Self {
        Self { runtime, model, scratch: Arc::new(Scratch::new()) }
    }

    /// Opens the realm as another process would: the same realm if it is on disk, otherwise a new one.
    pub(crate) fn another(&self, script: impl IntoIterator<Item = Script>) -> Self {
        Self::open(Arc::clone(&self.scratch), ScriptedModel::new(script), [])
    }

    /// Creates a realm in memory with tools from this source.
    pub(crate) fn with_source(
        script: impl IntoIterator<Item = Script>,
        source: Arc<dyn meerkat_core::ToolSource>,
    ) -> Self {
        let model = ScriptedModel::new(script);
        let options = RuntimeOptions {
            models: vec![Arc::clone(&model) as _],
            tool_sources: vec![source],
            ..RuntimeOptions::default()
        };
        let runtime = Runtime::ephemeral(options).unwrap();
        Self { runtime, model, scratch: Arc::new(Scratch::new()) }
    }

    fn open(
        scratch: Arc<Scratch>,
        model: Arc<ScriptedModel>,
        tools: impl IntoIterator<Item = Arc<dyn Tool>>,
    ) -> Self {
        let realm = if Profile::THIS.is_durable() {
            scratch.realm()
        } else {
            Realm::ephemeral("test".parse().unwrap())
        };
        let options = RuntimeOptions {
            models: vec![Arc::clone(&model) as _],
            tool_sources: vec![Tools::new(tools)],
            ..RuntimeOptions::default()
        };
        Self { runtime: Runtime::new(realm, options), model, scratch }
    }

    pub(crate) fn sessions(&self) -> SessionService {
        self.runtime.sessions()
    }

    /// Changes the config.
    pub(crate) async fn configure(&self, patch: Value) {
        self.runtime.config().change(ConfigChange::Patch(object(patch)), None).await.unwrap();
    }

    /// Creates a session with one run.
    pub(crate) async fn create(&self, turn: TurnOptions) -> Result<RunResult, Error> {
        self.sessions().create(NewSessionOptions::default(), turn, RunControl::default()).await
    }

    /// Creates a session and records the events of its first run.
    pub(crate) async fn record(&self, turn: TurnOptions) -> (Result<RunResult, Error>, Recorder) {
        let recorder = Recorder::default();
        let done = self.sessions().create(NewSessionOptions::default(), turn, watch(&recorder)).await;
        (done, recorder)
    }

    /// Creates a session whose first run must succeed.
    pub(crate) async fn session(&self, prompt: &str) -> SessionId {
        self.create(say(prompt)).await.unwrap().session_id
    }

    /// Runs a session.
    pub(crate) async fn resume(&self, id: SessionId, turn: TurnOptions) -> Result<RunResult, Error> {
        self.sessions().start_turn(id, turn, RunControl::default()).await
    }

    /// Starts a run in the background.
    pub(crate) fn start(&self, id: SessionId, turn: TurnOptions, control: RunControl) -> Running {
        let sessions = self.sessions();
        tokio::spawn(async move { sessions.start_turn(id, turn, control).await })
    }

    /// Starts a run and returns its handle.
    pub(crate) async fn handle(&self, id: SessionId, turn: TurnOptions, control: RunControl) -> RunHandle {
        self.sessions().run(RunRequest { target: Target::Existing(id), turn, control }).await.unwrap()
    }

    /// Creates a session with a run that waits for the model. The script must start with a response and then hang.
    pub(crate) async fn hanging(&self) -> (SessionId, Running) {
        let id = self.session("one").await;
        let running = self.start(id, then("two"), RunControl::default());
        self.model.wait_for_requests(2).await;
        (id, running)
    }

    /// Reads the messages of a session, one line each.
    pub(crate) async fn lines(&self, id: SessionId) -> Vec<String> {
        let page = self.sessions().history(id, 0, None).await.unwrap();
        page.messages.iter().map(message_line).collect()
    }
}

/// Calls an operation by name.
pub(crate) async fn call(world: &World, name: &str, arguments: Value) -> Result<Value, Error> {
    let call = Call { runtime: world.runtime.clone(), control: RunControl::default() };
    find(name).unwrap().call(call, arguments).await.map(|reply| reply.json)
}

/// Checks that a reply matches the schema of its operation.
pub(crate) fn fits(name: &str, reply: &Value) {
    let validator = jsonschema::draft202012::new(&find(name).unwrap().output_schema()).unwrap();
    let errors: Vec<_> = validator.iter_errors(reply).map(|error| error.to_string()).collect();
    assert_eq!(errors, [""; 0], "{name}: {reply}");
}

/// Records the events of a run.
pub(crate) fn watch(recorder: &Recorder) -> RunControl {
    RunControl { events: Some(recorder.sink()), ..RunControl::default() }
}

/// Builds the first prompt of a session, for the scripted model.
pub(crate) fn say(prompt: &str) -> TurnOptions {
    TurnOptions { model: Some(ScriptedModel::ID.to_owned()), ..then(prompt) }
}

/// Builds a further prompt.
pub(crate) fn then(prompt: &str) -> TurnOptions {
    let input = RunInput { prompt: Content::text(prompt), ..RunInput::default() };
    TurnOptions { input, ..TurnOptions::default() }
}

/// Builds the results of pending calls.
pub(crate) fn answers<const N: usize>(results: [(&str, &str); N]) -> TurnOptions {
    let result = |(id, text): (&str, &str)| ToolResult {
        tool_use_id: id.to_owned(),
        content: Content::text(text),
        is_error: false,
    };
    let input = RunInput { results: results.map(result).to_vec(), ..RunInput::default() };
    TurnOptions { input, ..TurnOptions::default() }
}

/// Builds a tool of the caller.
pub(crate) fn client_tool(name: &str, handler: Option<&str>) -> ToolHandler {
    ToolHandler {
        name: name.to_owned(),
        description: format!("The tool {name}."),
        input_schema: Map::new(),
        handler: handler.map(str::to_owned),
    }
}

/// Returns the text of a completed run.
pub(crate) fn text(done: &RunResult) -> &str {
    match &done.report.outcome {
        Outcome::Completed(done) => &done.text,
        other => panic!("{other:?}"),
    }
}

/// Returns the kind of the error.
pub(crate) fn kind<T: std::fmt::Debug>(result: Result<T, Error>) -> ErrorKind {
    result.unwrap_err().kind()
}

pub(crate) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        other => panic!("{other}"),
    }
}
