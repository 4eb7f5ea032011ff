//! The MCP servers of a runtime: those of the files, which all sessions share, and those of single sessions.
//!
//! Files are looked at between two steps of any run, and what changed in them takes effect then. A change to a
//! project's file that the user has not trusted starts nothing that was not trusted before.

mod disk;
mod files;
mod handshakes;
mod live;
mod sessions;
mod tokens;
mod wanted;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use meerkat_core::{Redactor, SessionId, Tool, ToolConfigChange, ToolSource};
use meerkat_mcp::config::ServerConfig;
use meerkat_mcp::{
    HandshakeMemory, Launcher, RequiredError, SearchedTools, ServerSet, SessionServers, SetOptions, Tokens,
};

use tokio::task::JoinSet;

use crate::Error;
use crate::providers::SecretSource;

pub use meerkat_mcp::Notify;

pub use files::{LoadedFiles, ProjectTrust, ServerFiles, ServerFilesError};
pub(crate) use live::{Lasting, LiveChange};
use sessions::{Live, LiveSessions};
pub use tokens::TokenFolder;

/// How much of a model's window is taken for its window where nobody knows it.
const USUAL_WINDOW: u64 = 128_000;

/// What the servers of a runtime are made from.
#[derive(Clone, Default)]
pub struct McpServersOptions {
    /// Where the files of servers are.
    pub files: ServerFiles,
    /// Servers besides those of the files, which do not replace them.
    pub servers: Vec<ServerConfig>,
    /// What servers are run with.
    pub set: SetOptions,
    /// Where the values of `${NAME}` come from.
    pub variables: Option<SecretSource>,
    /// Who is told of entries that cannot be used.
    pub notify: Option<Notify>,
}

/// Where a program finds itself, as far as servers are concerned.
#[derive(Debug, Clone, Default)]
pub struct ServerSurroundings {
    /// The project's directory; servers are started in it.
    pub project: Option<PathBuf>,
    /// The user's own directory.
    pub home: Option<PathBuf>,
    /// The environment, where the values of `${NAME}` come from. Servers get the harmless part of it.
    pub environment: BTreeMap<String, String>,
    /// The program itself, which must call [`supervise`](meerkat_mcp::supervise) first thing.
    pub program: Option<PathBuf>,
    /// Who knows the secrets of the program, and learns those of the servers; the runtime should have the same.
    pub redactor: Redactor,
}

impl McpServersOptions {
    /// Says what a program's servers are made from.
    #[must_use]
    pub fn of(around: ServerSurroundings) -> Self {
        let ServerSurroundings { project, home, environment, program, redactor } = around;
        let tokens = home.as_deref().map(|home| Arc::new(TokenFolder::of(home)) as Arc<dyn Tokens>);
        let handshakes = home
            .as_deref()
            .map(|home| Arc::new(handshakes::HandshakeDir::new(home)) as Arc<dyn HandshakeMemory>);
        let variables = environment.clone();
        Self {
            files: ServerFiles::of(project.as_deref(), home.as_deref()),
            set: SetOptions {
                launcher: Launcher { environment, folder: project, supervisor: program },
                tokens,
                handshakes,
                redactor,
                ..SetOptions::default()
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
    seen: Mutex<wanted::Seen>,
    sessions: Mutex<LiveSessions>,
}

impl McpServers {
    /// Makes the servers of a runtime. None is started before it is needed.
    #[must_use]
    pub fn new(options: McpServersOptions) -> Arc<Self> {
        let set = SetOptions { notify: options.notify.clone(), ..options.set.clone() };
        let shared = Arc::new(ServerSet::new(set));
        Arc::new(Self { options, shared, seen: Mutex::default(), sessions: Mutex::default() })
    }

    /// Starts the servers of the files, or follows what changed in them. It waits for none, and costs little
    /// when nothing changed.
    ///
    /// It must be called inside a Tokio runtime.
    pub fn start(&self) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let stamps = self.options.files.stamps();
        if seen.is_current(&stamps) {
            return;
        }
        let tell = |line: &str| {
            if let Some(notify) = &self.options.notify {
                notify(line);
            }
        };
        let lookup = |name: &str| self.options.variables.as_ref().and_then(|variables| variables(name));
        if let Some(of_files) = seen.look(&self.options.files, stamps, &lookup, &tell) {
            let mut wanted = self.options.servers.clone();
            let given = |name: &str| self.options.servers.iter().any(|server| server.name == name);
            wanted.extend(of_files.into_iter().filter(|server| !given(&server.name)));
            self.shared.stage_all(wanted);
            self.shared.apply();
        }
    }

    /// The servers that all sessions share, to be looked at and waited for. Which they are is said by the options
    /// and the files.
    #[must_use]
    pub fn shared(&self) -> &ServerSet {
        &self.shared
    }

    /// Says where the entry of a server is, as `file:line`; nothing for one that is not from a file.
    #[must_use]
    pub fn place(&self, name: &str) -> Option<String> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).place(name)
    }

    /// The servers of a session that this process has run, unless it has run many others since.
    #[must_use]
    pub fn session(&self, session: SessionId) -> Option<Arc<SessionServers>> {
        self.sessions().get(session).map(|live| Arc::clone(&live.servers))
    }

    /// Starts the servers and waits for those that a run must not start without.
    ///
    /// # Errors
    /// Names the first that has failed, as soon as it has.
    pub async fn require(self: &Arc<Self>) -> Result<(), RequiredError> {
        let servers = Arc::clone(self);
        // The files may be on a slow disk.
        let _ = tokio::task::spawn_blocking(move || servers.start()).await;
        if let Some(unusable) = self.seen.lock().unwrap_or_else(PoisonError::into_inner).unusable() {
            return Err(unusable);
        }
        self.shared.require().await
    }

    /// Ends every server and waits until all that they started is gone, or until the time is up; then those who
    /// watch them see to it.
    pub async fn close(&self, patience: Duration) {
        let sessions = self.sessions().take_all();
        let mut ends = JoinSet::new();
        for live in sessions {
            ends.spawn(async move { live.servers.close().await });
        }
        let shared = Arc::clone(&self.shared);
        ends.spawn(async move { shared.close().await });
        let _ = tokio::time::timeout(patience, ends.join_all()).await;
    }

    fn sessions(&self) -> MutexGuard<'_, LiveSessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn join(&self, session: SessionId) -> Live {
        let new = || Live::new(SessionServers::new(Arc::clone(&self.shared)));
        self.sessions().join(session, new)
    }

    /// Returns the tools of a session's servers for a run with a window of so many tokens.
    pub(crate) fn source(self: &Arc<Self>, session: SessionId, window: Option<u64>) -> Arc<dyn ToolSource> {
        let live = self.join(session);
        let watched = Watched { all: Arc::clone(self), servers: live.servers };
        let window = usize::try_from(window.unwrap_or(USUAL_WINDOW)).unwrap_or(usize::MAX);
        Arc::new(SearchedTools::new(Arc::new(watched), window).with_loaded(live.loaded))
    }

    /// Ends what belongs to a session alone.
    pub(crate) fn forget(&self, session: SessionId) {
        let gone = self.sessions().remove(session);
        drop(gone);
    }
}

/// The servers as a runtime has them.
pub(crate) struct Attached(Arc<McpServers>);

impl Attached {
    pub(crate) fn new(servers: Option<Arc<McpServers>>) -> Self {
        Self(servers.unwrap_or_else(|| McpServers::new(McpServersOptions::default())))
    }

    pub(crate) fn source(&self, session: SessionId, window: Option<u64>) -> Option<Arc<dyn ToolSource>> {
        Some(self.0.source(session, window))
    }

    pub(crate) async fn require(&self) -> Result<(), Error> {
        let missing = |RequiredError { server, reason }| Error::RequiredServer { server, reason };
        self.0.require().await.map_err(missing)
    }

    pub(crate) async fn close(&self, patience: Duration) {
        self.0.close(patience).await;
    }
}

impl Deref for Attached {
    type Target = McpServers;

    fn deref(&self) -> &McpServers {
        &self.0
    }
}

/// A session's servers, which follow the files.
struct Watched {
    all: Arc<McpServers>,
    servers: Arc<SessionServers>,
}

impl ToolSource for Watched {
    fn settle(&self) -> Vec<ToolConfigChange> {
        self.all.start();
        self.servers.settle()
    }

    fn notice(&self) -> Option<String> {
        self.servers.notice()
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.servers.tools()
    }
}
