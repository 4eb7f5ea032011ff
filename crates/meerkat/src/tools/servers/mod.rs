//! The MCP servers of a runtime: those in config files, shared by all sessions, and those of single sessions.
//!
//! Files are checked between the steps of any run, and changes take effect then. An untrusted change to a project's
//! file does not start anything that was not already trusted.

mod desired;
mod disk;
mod files;
mod handshakes;
mod session;
mod sessions;
mod tokens;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use meerkat_core::{BoxFuture, Redactor, SessionId, Tool, ToolConfigChange, ToolSource};
use meerkat_mcp::config::ServerConfig;
use meerkat_mcp::{
    HandshakeMemory, Launcher, RequiredError, SearchableTools, ServerSet, ServerSetOptions, SessionServers,
    TokenStore,
};

use tokio::task::JoinSet;

use super::{Contribution, RunExtension, RunView, ToolsError};
use crate::secrets::SecretSource;

pub use meerkat_mcp::NoticeSink;

pub use files::{LoadedServerFiles, ProjectTrust, ServerFiles, ServerFilesError};
pub(crate) use session::{Persistence, SessionServerChange};
use sessions::{Live, LiveSessions};
pub use tokens::TokenDir;

/// Default context window, in tokens, of models whose window is unknown.
const DEFAULT_WINDOW: u64 = 128_000;

/// Options of a runtime's servers.
#[derive(Clone, Default)]
pub struct McpServersOptions {
    /// Locations of the MCP config files.
    pub files: ServerFiles,
    /// Servers in addition to those of the files; they take precedence over servers of the same name in files.
    pub servers: Vec<ServerConfig>,
    /// Options of the server set.
    pub set: ServerSetOptions,
    /// Source of the values of `${NAME}`.
    pub variables: Option<SecretSource>,
    /// Sink for reports of entries that cannot be used.
    pub notify: Option<NoticeSink>,
}

/// Environment of the application in which servers run.
#[derive(Debug, Clone, Default)]
pub struct ServerEnvironment {
    /// The project's directory, in which servers are started.
    pub project: Option<PathBuf>,
    /// The user's home directory.
    pub home: Option<PathBuf>,
    /// Environment variables, used to expand `${NAME}`. Servers inherit the variables that are not secret.
    pub environment: BTreeMap<String, String>,
    /// The application's executable, which must call [`supervise`](meerkat_mcp::supervise) first.
    pub program: Option<PathBuf>,
    /// Redactor with the application's secrets, to which the servers' secrets are added; use the runtime's redactor.
    pub redactor: Redactor,
}

impl McpServersOptions {
    /// Creates the options for an application's environment.
    #[must_use]
    pub fn for_environment(surroundings: ServerEnvironment) -> Self {
        let ServerEnvironment { project, home, environment, program, redactor } = surroundings;
        let tokens = home.as_deref().map(|home| Arc::new(TokenDir::new(home)) as Arc<dyn TokenStore>);
        let handshakes = home
            .as_deref()
            .map(|home| Arc::new(handshakes::HandshakeDir::new(home)) as Arc<dyn HandshakeMemory>);
        let variables = environment.clone();
        Self {
            files: ServerFiles::for_dirs(project.as_deref(), home.as_deref()),
            set: ServerSetOptions {
                launcher: Launcher { environment, dir: project, supervisor: program },
                tokens,
                handshakes,
                redactor,
                ..ServerSetOptions::default()
            },
            variables: Some(Arc::new(move |name: &str| variables.get(name).cloned())),
            ..Self::default()
        }
    }
}

/// The MCP servers of a runtime.
pub struct McpServers {
    options: McpServersOptions,
    shared: Arc<ServerSet>,
    file_state: Mutex<desired::FileState>,
    sessions: Mutex<LiveSessions>,
}

impl McpServers {
    /// Creates the servers of a runtime. Servers are started when first needed.
    #[must_use]
    pub fn new(options: McpServersOptions) -> Arc<Self> {
        let set = ServerSetOptions { notify: options.notify.clone(), ..options.set.clone() };
        let shared = Arc::new(ServerSet::new(set));
        Arc::new(Self { options, shared, file_state: Mutex::default(), sessions: Mutex::default() })
    }

    /// Starts the servers of the files, or applies changes to the files. Does not wait for servers, and is cheap if
    /// nothing changed.
    ///
    /// Must be called inside a Tokio runtime.
    pub fn start(&self) {
        let mut file_state = self.file_state.lock().unwrap_or_else(PoisonError::into_inner);
        let stamps = self.options.files.stamps();
        if file_state.is_current(&stamps) {
            return;
        }
        let report = |line: &str| {
            if let Some(notify) = &self.options.notify {
                notify(line);
            }
        };
        let lookup = |name: &str| self.options.variables.as_ref().and_then(|variables| variables(name));
        if let Some(from_files) = file_state.reload(&self.options.files, stamps, &lookup, &report) {
            let mut desired = self.options.servers.clone();
            let is_embedded = |name: &str| self.options.servers.iter().any(|server| server.name == name);
            desired.extend(from_files.into_iter().filter(|server| !is_embedded(&server.name)));
            self.shared.stage_all(desired);
            self.shared.apply();
        }
    }

    /// Returns the servers shared by all sessions, for inspecting and awaiting them. The options and the files
    /// determine these servers.
    #[must_use]
    pub fn shared(&self) -> &ServerSet {
        &self.shared
    }

    /// Returns the location of a server's entry, as `file:line`, or `None` if it is not from a file.
    #[must_use]
    pub fn entry_location(&self, name: &str) -> Option<String> {
        self.file_state.lock().unwrap_or_else(PoisonError::into_inner).entry_location(name)
    }

    /// Returns the servers of a session that this process has run, unless it has run many other sessions since.
    #[must_use]
    pub fn session(&self, session: SessionId) -> Option<Arc<SessionServers>> {
        self.sessions().get(session).map(|live| Arc::clone(&live.servers))
    }

    /// Starts the servers and waits for the required ones.
    ///
    /// # Errors
    /// Returns an error as soon as a required server fails.
    pub async fn require(self: &Arc<Self>) -> Result<(), RequiredError> {
        let servers = Arc::clone(self);
        // The files may be on a slow disk.
        let _ = tokio::task::spawn_blocking(move || servers.start()).await;
        if let Some(unusable) = self.file_state.lock().unwrap_or_else(PoisonError::into_inner).unusable() {
            return Err(unusable);
        }
        self.shared.require().await
    }

    /// Stops all servers and waits until their processes have exited, or until the timeout; after that, their
    /// supervisors finish the cleanup.
    pub async fn close(&self, timeout: Duration) {
        let sessions = self.sessions().take_all();
        let mut ends = JoinSet::new();
        for live in sessions {
            ends.spawn(async move { live.servers.close().await });
        }
        let shared = Arc::clone(&self.shared);
        ends.spawn(async move { shared.close().await });
        let _ = tokio::time::timeout(timeout, ends.join_all()).await;
    }

    fn sessions(&self) -> MutexGuard<'_, LiveSessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn join(&self, session: SessionId) -> Live {
        let new = || Live::new(SessionServers::new(Arc::clone(&self.shared)));
        self.sessions().join(session, new)
    }

    /// Returns the tools of a session's servers for a run with a context window of `window` tokens.
    pub(crate) fn source(self: &Arc<Self>, session: SessionId, window: Option<u64>) -> Arc<dyn ToolSource> {
        let live = self.join(session);
        let tools = SharedAndSessionTools { all: Arc::clone(self), servers: live.servers };
        let window = usize::try_from(window.unwrap_or(DEFAULT_WINDOW)).unwrap_or(usize::MAX);
        Arc::new(SearchableTools::new(Arc::new(tools), window).with_loaded(live.loaded))
    }
}

/// The servers of a runtime; sessions can add their own.
impl RunExtension for Arc<McpServers> {
    fn require(&self) -> BoxFuture<'_, Result<(), ToolsError>> {
        let missing = |RequiredError { server, reason }| ToolsError::RequiredServer { server, reason };
        Box::pin(async move { McpServers::require(self).await.map_err(missing) })
    }

    fn contribute<'a>(&'a self, run: &'a RunView<'a>) -> BoxFuture<'a, Contribution> {
        let source = || self.source(run.session, run.model.context_window);
        let sources = (!run.overlay.allows_none()).then(source).into_iter().collect();
        Box::pin(async { Contribution { sources, ..Contribution::default() } })
    }

    /// Stops the servers that belong only to a session.
    fn forget(&self, session: SessionId) {
        let removed = self.sessions().remove(session);
        drop(removed);
    }

    fn close(&self, timeout: Duration) -> BoxFuture<'_, ()> {
        Box::pin(McpServers::close(self, timeout))
    }
}

/// Tools of a session's servers and of the shared servers, kept in sync with the files.
struct SharedAndSessionTools {
    all: Arc<McpServers>,
    servers: Arc<SessionServers>,
}

impl ToolSource for SharedAndSessionTools {
    fn apply_changes(&self) -> Vec<ToolConfigChange> {
        self.all.start();
        self.servers.apply_changes()
    }

    fn notice(&self) -> Option<String> {
        self.servers.notice()
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.servers.tools()
    }
}
