//! A toolbox with its own workspace, and in-memory storage.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use meerkat_core::{
    BlobId, BoxFuture, Clock, Content, Invocation, Redactor, RunId, SessionId, Timestamp, ToolCall,
    ToolOutput, ToolSource,
};
use meerkat_tools::{
    Sandbox, ShellOptions, StorageError, StoredBlob, ToolSelection, ToolStorage, Toolbox, ToolboxOptions,
};
use serde_json::{Value, json};
use uuid::Uuid;

/// In-memory storage.
#[derive(Default)]
pub(crate) struct Memory {
    blobs: Mutex<HashMap<BlobId, StoredBlob>>,
    tasks: Mutex<Vec<(SessionId, String, Vec<u8>)>>,
}

impl ToolStorage for Memory {
    fn blob(&self, id: BlobId) -> BoxFuture<'_, Result<Option<StoredBlob>, StorageError>> {
        Box::pin(async move { Ok(self.blobs.lock().unwrap().get(&id).cloned()) })
    }

    fn put_blob(&self, blob: StoredBlob) -> BoxFuture<'_, Result<BlobId, StorageError>> {
        Box::pin(async move {
            let mut blobs = self.blobs.lock().unwrap();
            let mut digest = [0; 32];
            digest[0] = u8::try_from(blobs.len()).unwrap();
            let id = BlobId::from_digest(&digest);
            blobs.insert(id.clone(), blob);
            Ok(id)
        })
    }

    fn tasks(&self, session: SessionId) -> BoxFuture<'_, Result<Vec<Vec<u8>>, StorageError>> {
        Box::pin(async move {
            let tasks = self.tasks.lock().unwrap();
            Ok(tasks
                .iter()
                .filter(|(owner, _, _)| *owner == session)
                .map(|(_, _, task)| task.clone())
                .collect())
        })
    }

    fn add_task(
        &self,
        session: SessionId,
        id: String,
        task: Vec<u8>,
        limit: usize,
    ) -> BoxFuture<'_, Result<bool, StorageError>> {
        Box::pin(async move {
            let mut tasks = self.tasks.lock().unwrap();
            let has_room = tasks.iter().filter(|(owner, ..)| *owner == session).count() < limit;
            if has_room {
                tasks.push((session, id, task));
            }
            Ok(has_room)
        })
    }

    fn put_task(
        &self,
        session: SessionId,
        id: String,
        task: Vec<u8>,
    ) -> BoxFuture<'_, Result<(), StorageError>> {
        Box::pin(async move {
            let mut tasks = self.tasks.lock().unwrap();
            match tasks.iter_mut().find(|(owner, known, _)| *owner == session && *known == id) {
                Some((_, _, old)) => *old = task,
                None => tasks.push((session, id, task)),
            }
            Ok(())
        })
    }
}

/// A secret that the tools know.
pub(crate) const KNOWN_SECRET: &str = "swordfish-4711";

fn redactor() -> Redactor {
    let redactor = Redactor::default();
    redactor.add(KNOWN_SECRET);
    redactor
}

/// A clock that stands still.
pub(crate) struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        "2026-03-01T12:30:45Z".parse().unwrap()
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// A workspace, a home with secrets, and tools.
pub(crate) struct World {
    scratch: tempfile::TempDir,
    toolbox: Toolbox,
    pub(crate) session: SessionId,
    source: Arc<dyn ToolSource>,
}

impl World {
    /// Creates tools without a shell.
    pub(crate) fn new() -> Self {
        Self::with(ToolSelection { images: true, ..ToolSelection::default() })
    }

    /// Creates tools with a shell.
    pub(crate) fn with_shell(options: ShellOptions) -> Self {
        Self::with(ToolSelection { images: true, shell: Some(options), ..ToolSelection::default() })
    }

    /// Creates tools with this selection.
    pub(crate) fn with(wanted: ToolSelection) -> Self {
        Self::in_dir("work", wanted)
    }

    /// Creates tools whose workspace is the home directory.
    pub(crate) fn at_home(options: ShellOptions) -> Self {
        Self::in_dir("home", ToolSelection { shell: Some(options), ..ToolSelection::default() })
    }

    /// Creates tools whose workspace is the entire file system.
    pub(crate) fn everywhere() -> Self {
        Self::in_dir("/", ToolSelection::default())
    }

    fn in_dir(workspace: &str, wanted: ToolSelection) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let path = |name: &str| scratch.path().join(name);
        for dir in ["work", "home/.ssh", "home/other", "temp", "realms"] {
            std::fs::create_dir_all(path(dir)).unwrap();
        }
        std::fs::write(path("home/.ssh/id_ed25519"), "SECRET-KEY").unwrap();
        std::fs::write(path("home/other/notes"), "notes").unwrap();
        std::fs::write(path("realms/state"), "SECRET-STATE").unwrap();
        std::fs::write(path("outside"), "outside").unwrap();
        let environment = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("ANTHROPIC_API_KEY", "SECRET-API")];
        let home = path("home").display().to_string();
        let environment = environment.into_iter().chain([("HOME", home.as_str())]);
        let options = ToolboxOptions {
            workspace: Some(path(workspace)),
            home: Some(path("home")),
            temp_dir: Some(path("temp")),
            hidden_dirs: vec![path("realms")],
            environment: environment
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect::<BTreeMap<_, _>>(),
            supervisor: Some(supervisor()),
            ..ToolboxOptions::default()
        };
        let toolbox = Toolbox::new(&options, Arc::new(Memory::default()), Arc::new(FixedClock), redactor());
        let session = SessionId::from_uuid(Uuid::now_v7());
        let source = toolbox.source(session, wanted);
        Self { scratch, toolbox, session, source }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().canonicalize().unwrap().join(name)
    }

    /// Returns the same world with other secrets.
    pub(crate) fn with_secrets(self, secrets: &[&str]) -> Self {
        let secrets = secrets.iter().map(|secret| (*secret).to_owned()).collect();
        let wanted = ToolSelection {
            images: true,
            shell: Some(ShellOptions::default()),
            secrets,
            ..ToolSelection::default()
        };
        let source = self.toolbox.source(self.session, wanted);
        Self { source, ..self }
    }

    pub(crate) fn source(&self) -> &dyn ToolSource {
        &*self.source
    }

    pub(crate) fn toolbox(&self) -> &Toolbox {
        &self.toolbox
    }

    /// Writes a file of the workspace.
    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.path("work").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Reads a file of the workspace.
    pub(crate) fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.path("work").join(path)).ok()
    }

    /// Creates a symlink in the workspace.
    pub(crate) fn link(&self, name: &str, target: impl AsRef<Path>) {
        std::os::unix::fs::symlink(target, self.path("work").join(name)).unwrap();
    }

    pub(crate) async fn output(&self, name: &str, args: Value) -> ToolOutput {
        let tool = self.source.tools().into_iter().find(|tool| tool.def().name == name);
        let tool = tool.unwrap_or_else(|| panic!("no tool {name}"));
        let call = ToolCall { id: "1".to_owned(), name: name.to_owned(), args };
        let run_id = RunId::from_uuid(Uuid::now_v7());
        tool.call(Invocation { session_id: self.session, run_id, call, trace: None }).await
    }

    /// Calls a tool that must succeed, and returns its text.
    pub(crate) async fn text(&self, name: &str, args: Value) -> String {
        let output = self.output(name, args).await;
        assert!(!output.is_error, "{output:?}");
        text(&output.content)
    }

    /// Calls a tool that must succeed, and returns its JSON.
    pub(crate) async fn json(&self, name: &str, args: Value) -> Value {
        serde_json::from_str(&self.text(name, args).await).unwrap()
    }

    /// Calls a tool that must fail, and returns the kind of failure and the message.
    pub(crate) async fn failure(&self, name: &str, args: Value) -> (String, String) {
        let output = self.output(name, args).await;
        assert!(output.is_error, "{output:?}");
        let message: Value = serde_json::from_str(&text(&output.content)).unwrap();
        let part = |key: &str| {
            message[key].as_str().unwrap().replace(&self.path("").display().to_string(), "[dir]/")
        };
        (part("error"), part("message"))
    }

    /// Runs a command line and returns the reply.
    pub(crate) async fn shell(&self, command: &str) -> Value {
        self.json("shell", json!({ "command": command })).await
    }
}

fn text(content: &Content) -> String {
    match content.blocks() {
        [meerkat_core::ContentBlock::Text { text }] => text.clone(),
        other => panic!("{other:?}"),
    }
}

/// Returns the path of the supervisor program.
pub(crate) fn supervisor() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.parent().unwrap().parent().unwrap().join("examples/shell_host");
    assert!(program.exists(), "build it first: cargo build -p meerkat-tools --examples");
    program
}

/// Returns options for a shell without a sandbox.
pub(crate) fn unsandboxed() -> ShellOptions {
    ShellOptions { sandbox: Sandbox::Off, ..ShellOptions::default() }
}

/// Returns `true` if this machine can run the sandbox tests, and prints a warning if it cannot.
#[expect(clippy::disallowed_methods, reason = "who runs the tests says so in the environment")]
pub(crate) fn is_sandbox_available() -> bool {
    match meerkat_process::check_sandbox() {
        Ok(()) => true,
        Err(error) => {
            assert!(
                std::env::var_os("MEERKAT_WITHOUT_SANDBOX").is_some(),
                "the sandbox was NOT tested: {error}; set MEERKAT_WITHOUT_SANDBOX=1 to skip these tests"
            );
            eprintln!("NOT TESTED: {error}");
            false
        }
    }
}
