//! The servers of a session or a process, and their tools.
//!
//! Nothing here waits for a server: adding one starts its task and returns. Changes that come while a run is at
//! work are staged, and take effect when the run is between two steps.

mod changes;
mod offer;
mod session;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use meerkat_core::{Redactor, Tool, ToolConfigChange, ToolSource};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::auth::Tokens;
use crate::config::ServerConfig;
use crate::connect::EraCache;
use crate::host::Host;
use crate::process::Launcher;
use crate::server::{ActorTools, Order, ServerState, ServerView, Shared, spawn_actor};

pub use changes::Change;
pub use session::SessionServers;

/// What servers are run with.
#[derive(Clone, Default)]
pub struct SetOptions {
    /// How programs are started.
    pub launcher: Launcher,
    /// Who answers the questions of servers.
    pub host: Option<Arc<dyn Host>>,
    /// Where the user's tokens are.
    pub tokens: Option<Arc<dyn Tokens>>,
    /// Learns what servers are given in secret, and takes it out of what they write and say of failures.
    pub redactor: Redactor,
}

/// A required server that is not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the required MCP server `{server}` is not ready: {reason}")]
pub struct RequiredError {
    /// Its name.
    pub server: String,
    /// Why.
    pub reason: String,
}

struct Server {
    shared: Arc<Shared>,
    stop: CancellationToken,
    orders: mpsc::Sender<Order>,
    task: Option<JoinHandle<()>>,
    /// The state that was last told of.
    told: ServerState,
}

/// The servers in use. Dropping it ends them all.
pub struct ServerSet {
    launcher: Arc<Launcher>,
    host: Option<Arc<dyn Host>>,
    tokens: Option<Arc<dyn Tokens>>,
    redactor: Redactor,
    eras: Arc<EraCache>,
    servers: Mutex<BTreeMap<String, Server>>,
    staged: Mutex<Vec<Change>>,
    leaving: Mutex<Vec<JoinHandle<()>>>,
    changed: watch::Sender<()>,
}

impl ServerSet {
    /// Makes an empty set.
    #[must_use]
    pub fn new(options: SetOptions) -> Self {
        Self {
            launcher: Arc::new(options.launcher),
            host: options.host,
            tokens: options.tokens,
            redactor: options.redactor,
            eras: Arc::default(),
            servers: Mutex::default(),
            staged: Mutex::default(),
            leaving: Mutex::default(),
            changed: watch::Sender::new(()),
        }
    }

    /// Makes an empty set whose servers are run with the same.
    pub(crate) fn sibling(&self) -> Self {
        Self {
            launcher: Arc::clone(&self.launcher),
            host: self.host.clone(),
            tokens: self.tokens.clone(),
            redactor: self.redactor.clone(),
            eras: Arc::default(),
            servers: Mutex::default(),
            staged: Mutex::default(),
            leaving: Mutex::default(),
            changed: watch::Sender::new(()),
        }
    }

    /// Adds a server at once and starts to connect. One of the same name is ended.
    ///
    /// It must be called inside a Tokio runtime.
    pub fn add(&self, config: ServerConfig) {
        let name = config.name.clone();
        let enabled = config.enabled;
        config.tell_secrets(&self.redactor);
        let shared = Arc::new(Shared::new(config, self.changed.clone(), self.redactor.clone()));
        let stop = CancellationToken::new();
        let (orders, inbox) = mpsc::channel(4);
        let with = ActorTools {
            shared: Arc::clone(&shared),
            launcher: Arc::clone(&self.launcher),
            eras: Arc::clone(&self.eras),
            host: self.host.clone(),
            tokens: self.tokens.clone(),
        };
        let task = enabled.then(|| spawn_actor(with, stop.clone(), inbox));
        let told = shared.state();
        let before = self.servers().insert(name, Server { shared, stop, orders, task, told });
        self.leave(before);
        self.changed.send_replace(());
    }

    /// Lists the servers that are still connecting.
    #[must_use]
    pub fn pending(&self) -> Vec<String> {
        offer::pending(&self.all())
    }

    /// Returns the notice for the model while servers are connecting.
    #[must_use]
    pub fn pending_notice(&self) -> Option<String> {
        offer::pending_notice(&self.all())
    }

    /// Waits until no server is connecting, at most so long, and says whether that is so.
    pub async fn wait(&self, limit: Duration) -> bool {
        let mut changed = self.changed.subscribe();
        let settled = async {
            while !self.pending().is_empty() {
                if changed.changed().await.is_err() {
                    break;
                }
            }
        };
        timeout(limit, settled).await.is_ok()
    }

    /// Waits for the required servers.
    ///
    /// # Errors
    ///
    /// Names the first that has failed, as soon as it has.
    pub async fn require(&self) -> Result<(), RequiredError> {
        let mut changed = self.changed.subscribe();
        loop {
            let mut waiting = false;
            for server in self.servers().values().filter(|server| server.shared.config.required) {
                match server.shared.state() {
                    ServerState::Failed { reason } | ServerState::NeedsReauth { reason } => {
                        return Err(RequiredError { server: server.shared.config.name.clone(), reason });
                    }
                    ServerState::Pending => waiting = true,
                    ServerState::Ready | ServerState::Disabled | ServerState::Removing => {}
                }
            }
            if !waiting || changed.changed().await.is_err() {
                return Ok(());
            }
        }
    }

    /// Shows every server as it is now, with its tools under the names the model knows.
    #[must_use]
    pub fn views(&self) -> Vec<ServerView> {
        offer::views(&self.all())
    }

    /// Ends every server and waits until all that they started is gone.
    pub async fn close(&self) {
        let servers = std::mem::take(&mut *self.servers());
        for server in servers.into_values() {
            self.leave(Some(server));
        }
        let leaving = std::mem::take(&mut *self.leaving.lock().unwrap_or_else(PoisonError::into_inner));
        for task in leaving {
            let _ = task.await;
        }
    }

    fn leave(&self, server: Option<Server>) {
        if let Some(Server { stop, task: Some(task), .. }) = server {
            stop.cancel();
            let mut leaving = self.leaving.lock().unwrap_or_else(PoisonError::into_inner);
            leaving.retain(|task| !task.is_finished());
            leaving.push(task);
        }
    }

    fn servers(&self) -> MutexGuard<'_, BTreeMap<String, Server>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says whether a server of that name is in use.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.servers().contains_key(name)
    }

    /// Everything known of each server, by name.
    pub(crate) fn all(&self) -> Vec<Arc<Shared>> {
        self.servers().values().map(|server| Arc::clone(&server.shared)).collect()
    }
}

impl Drop for ServerSet {
    fn drop(&mut self) {
        for server in self.servers().values() {
            server.stop.cancel();
        }
    }
}

impl ToolSource for ServerSet {
    fn settle(&self) -> Vec<ToolConfigChange> {
        self.apply()
    }

    fn notice(&self) -> Option<String> {
        self.pending_notice()
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        offer::tools(&self.all())
    }
}
