//! Servers of a session or a process, and their tools.
//!
//! Adding a server never blocks: it starts the server's task and returns. Changes during a run are staged, and take
//! effect between two steps.

mod changes;
mod listing;
mod session;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use meerkat_core::{Tool, ToolConfigChange, ToolSource};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::config::{ServerConfig, TransportConfig};
use crate::era::EraCache;
use crate::lock;
use crate::options::ServerSetOptions;
use crate::server::{
    ActorCommand, CallError, MAX_CONNECTING, ServerState, ServerView, SharedServer, spawn_actor,
};

use changes::ReportedState;
pub use changes::ServerChange;
pub use session::SessionServers;

/// Time after which the user is notified of pending servers.
const NOTICE_DELAY: Duration = Duration::from_secs(3);

/// Error of an unavailable required server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the required MCP server `{server}` is not ready: {reason}")]
pub struct RequiredError {
    /// Name of the server.
    pub server: String,
    /// The reason.
    pub reason: String,
}

struct Server {
    shared: Arc<SharedServer>,
    stop: CancellationToken,
    orders: mpsc::Sender<ActorCommand>,
    task: Option<JoinHandle<()>>,
    reported: ReportedState,
}

/// The servers in use. Dropping the set stops them all.
pub struct ServerSet {
    options: Arc<ServerSetOptions>,
    eras: Arc<EraCache>,
    /// Slots for connecting servers, shared with all siblings.
    slots: Arc<Semaphore>,
    servers: Mutex<BTreeMap<String, Server>>,
    staged: Mutex<Vec<ServerChange>>,
    leaving: Mutex<Vec<JoinHandle<()>>>,
    changed: watch::Sender<()>,
}

impl ServerSet {
    /// Creates an empty set.
    #[must_use]
    pub fn new(options: ServerSetOptions) -> Self {
        Self::with_slots(Arc::new(options), Arc::new(Semaphore::new(MAX_CONNECTING)))
    }

    fn with_slots(options: Arc<ServerSetOptions>, slots: Arc<Semaphore>) -> Self {
        Self {
            eras: Arc::new(EraCache::new(options.handshakes.clone())),
            slots,
            options,
            servers: Mutex::default(),
            staged: Mutex::default(),
            leaving: Mutex::default(),
            changed: watch::Sender::new(()),
        }
    }

    /// Creates an empty set with the same options.
    pub(crate) fn sibling(&self) -> Self {
        Self::with_slots(Arc::clone(&self.options), Arc::clone(&self.slots))
    }

    /// Adds a server immediately and starts to connect. A server of the same name is stopped.
    ///
    /// Must be called within a Tokio runtime.
    pub fn add(&self, config: ServerConfig) {
        let name = config.name.clone();
        let enabled = config.enabled;
        config.register_secrets(&self.options.redactor);
        let shared = Arc::new(SharedServer::new(config, self.changed.clone(), Arc::clone(&self.options)));
        let stop = CancellationToken::new();
        let (orders, inbox) = mpsc::channel(4);
        let shares = (Arc::clone(&self.eras), Arc::clone(&self.slots));
        let start = || spawn_actor(Arc::clone(&shared), shares, stop.clone(), inbox);
        let task = enabled.then(start);
        let reported = ReportedState::added(shared.state());
        let before = lock(&self.servers).insert(name, Server { shared, stop, orders, task, reported });
        self.leave(before);
        self.changed.send_replace(());
    }

    /// Lists the servers that are still connecting.
    #[must_use]
    pub fn pending(&self) -> Vec<String> {
        listing::pending(&self.all())
    }

    /// Returns the notice for the model while servers are connecting.
    #[must_use]
    pub fn pending_notice(&self) -> Option<String> {
        listing::pending_notice(&self.all())
    }

    /// Waits until no server is connecting, or until the timeout. Returns `true` if no server is connecting.
    ///
    /// Does not wait for failed servers. The user is notified of servers that take more than a few seconds.
    pub async fn wait_until_ready(&self, limit: Duration) -> bool {
        let delay = limit.min(NOTICE_DELAY);
        if self.wait_quietly(delay).await {
            return true;
        }
        let servers = self.all();
        for server in servers.iter().filter(|server| server.is_pending()) {
            server.notify_waiting();
        }
        self.wait_quietly(limit - delay).await
    }

    async fn wait_quietly(&self, limit: Duration) -> bool {
        let mut changed = self.changed.subscribe();
        let ready = async {
            while lock(&self.servers).values().any(|server| server.shared.is_pending()) {
                if changed.changed().await.is_err() {
                    break;
                }
            }
        };
        timeout(limit, ready).await.is_ok()
    }

    /// Waits for the required servers.
    ///
    /// # Errors
    ///
    /// Returns an error as soon as one of them has failed.
    pub async fn require(&self) -> Result<(), RequiredError> {
        let outcome = self.required();
        tokio::pin!(outcome);
        if let Ok(outcome) = timeout(NOTICE_DELAY, &mut outcome).await {
            return outcome;
        }
        let servers = self.all();
        let waits = |server: &&Arc<SharedServer>| server.config.required && server.is_pending();
        servers.iter().filter(waits).for_each(|server| server.notify_waiting());
        outcome.await
    }

    async fn required(&self) -> Result<(), RequiredError> {
        let mut changed = self.changed.subscribe();
        loop {
            let mut waiting = false;
            for server in lock(&self.servers).values().filter(|server| server.shared.config.required) {
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

    /// Returns the status of every server, with the exposed names of its tools.
    #[must_use]
    pub fn views(&self) -> Vec<ServerView> {
        listing::views(&self.all())
    }

    /// Lists the tools of every ready server again, so that a server that exited after its first responses is no longer
    /// ready when this returns.
    pub async fn confirm(&self, limit: Duration) {
        for server in self.all() {
            let Some(link) = server.link() else { continue };
            let Err(error) = link.list_tools(limit).await else { continue };
            let local = matches!(server.config.transport, TransportConfig::Stdio { .. });
            // A request that cannot be written is the first sign that a process has exited.
            if matches!(error, CallError::Closed) || local && matches!(error, CallError::Unreachable(_)) {
                let mut changed = self.changed.subscribe();
                let disconnected = async {
                    while server.state() == ServerState::Ready && changed.changed().await.is_ok() {}
                };
                if timeout(limit, disconnected).await.is_ok() {
                    continue;
                }
            }
            server.note_error(format!("cannot list its tools again: {error}"));
        }
    }

    /// Stops every server and waits until all their processes have exited.
    pub async fn close(&self) {
        let servers = std::mem::take(&mut *lock(&self.servers));
        for server in servers.into_values() {
            self.leave(Some(server));
        }
        let leaving = std::mem::take(&mut *lock(&self.leaving));
        for task in leaving {
            let _ = task.await;
        }
    }

    fn leave(&self, server: Option<Server>) {
        if let Some(Server { stop, task: Some(task), .. }) = server {
            stop.cancel();
            let mut leaving = lock(&self.leaving);
            leaving.retain(|task| !task.is_finished());
            leaving.push(task);
        }
    }

    /// Returns `true` if a server of that name is in use.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        lock(&self.servers).contains_key(name)
    }

    /// Returns the shared state of all servers, ordered by name.
    pub(crate) fn all(&self) -> Vec<Arc<SharedServer>> {
        lock(&self.servers).values().map(|server| Arc::clone(&server.shared)).collect()
    }
}

impl Drop for ServerSet {
    fn drop(&mut self) {
        for server in lock(&self.servers).values() {
            server.stop.cancel();
        }
    }
}

impl ToolSource for ServerSet {
    fn apply_changes(&self) -> Vec<ToolConfigChange> {
        self.apply()
    }

    fn notice(&self) -> Option<String> {
        self.pending_notice()
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        listing::tools(&self.all())
    }
}
