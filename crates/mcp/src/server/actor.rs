//! Task that owns a server: it connects, follows changes, reconnects after a failure, and stops the server.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::auth::AuthClient;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::link::{CallError, Link};
use super::state::{ServerState, SharedServer, ToolEntry};
use crate::auth::LoginState;
use crate::client_features::Handler;
use crate::config::{ServerConfig, TransportConfig};
use crate::connect::{ConnectError, Connection, Connector};
use crate::decode::ListedTool;
use crate::era::{Era, EraCache};
use crate::names::exposed_name;
use crate::process::StrayOutput;

/// Time limit for active calls when their server is removed.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);
/// Backoff before the first reconnect; it doubles with each failure.
const MIN_BACKOFF: Duration = Duration::from_millis(500);
/// Maximum backoff.
const MAX_BACKOFF: Duration = Duration::from_secs(30);
const MAX_DOUBLINGS: u32 = 6;
/// Maximum number of consecutive failures of a command. A URL is retried indefinitely.
const MAX_FAILURES: u32 = 5;
/// Connection time after which the failure count is reset.
const STABLE_AFTER: Duration = Duration::from_secs(30);
/// Connection time below which a server without a single call counts as broken.
const MIN_USEFUL: Duration = Duration::from_secs(10);
/// Maximum number of servers that start to connect at once. More would only compete with the runs for the processor.
pub(crate) const MAX_CONNECTING: usize = 8;
/// Time after which a connecting server is only slow, and the next one may start.
const SLOW_AFTER: Duration = Duration::from_secs(1);

/// Command to an actor.
#[derive(Debug)]
pub(crate) enum ActorCommand {
    /// Close the connection and open a new one.
    Reload,
}

struct Actor {
    shared: Arc<SharedServer>,
    eras: Arc<EraCache>,
    slots: Arc<Semaphore>,
    handler: Arc<Handler>,
    stop: CancellationToken,
    orders: mpsc::Receiver<ActorCommand>,
    failures: u32,
}

/// Reason why a connection is no longer used.
enum DisconnectReason {
    Stopped,
    Reload,
    Died,
}

/// Starts the task of a server, which takes one of the slots to connect. After the token is cancelled, the task ends
/// once all processes of the server have exited.
pub(crate) fn spawn_actor(
    shared: Arc<SharedServer>,
    (eras, slots): (Arc<EraCache>, Arc<Semaphore>),
    stop: CancellationToken,
    orders: mpsc::Receiver<ActorCommand>,
) -> JoinHandle<()> {
    let handler = Arc::new(Handler {
        server: shared.config.name.as_str().into(),
        host: shared.options.host.clone(),
        tools_changed: Arc::new(Notify::new()),
    });
    tokio::spawn(Actor { shared, eras, slots, handler, stop, orders, failures: 0 }.run())
}

impl Actor {
    async fn run(mut self) {
        loop {
            // A failed server stays in the state `Failed` until it is ready again.
            if self.failures == 0 || !matches!(self.shared.state(), ServerState::Failed { .. }) {
                self.shared.set_disconnected(ServerState::Pending);
            }
            let opened = tokio::select! {
                opened = self.open() => opened,
                () = self.stop.cancelled() => return,
            };
            let leave = match opened {
                Ok((service, link, era)) => self.serve(service, &link, era).await,
                Err(state) => self.back_off_failed(state).await,
            };
            match leave {
                DisconnectReason::Stopped => return,
                DisconnectReason::Reload => self.failures = 0,
                DisconnectReason::Died => self.shared.count_restart(),
            }
        }
    }

    /// Connects and lists the tools within the server's time limit.
    async fn open(&self) -> Result<(RunningService<RoleClient, Handler>, Link, Era), ServerState> {
        let shared = &self.shared;
        let limit = shared.config.connect_timeout;
        let slot = self.slot().await;
        let mut opening = pin!(timeout(limit, self.open_without_timeout()));
        let opened = match timeout(SLOW_AFTER, &mut opening).await {
            Ok(opened) => opened,
            Err(_) => {
                drop(slot);
                opening.await
            }
        };
        match opened {
            Ok(Ok(opened)) => Ok(opened),
            Ok(Err(error)) if error.needs_login() => {
                shared.set_needs_login(error.challenge().unwrap_or_default());
                let reason =
                    format!("{}; log in with `rkat mcp login {}`", crate::causes(&error), shared.config.name);
                Err(ServerState::NeedsReauth { reason })
            }
            Ok(Err(error)) => Err(self.failed(&crate::causes(&error))),
            Err(_) => Err(self.failed(&self.late_reason(limit))),
        }
    }

    /// Waits until few other servers are connecting. A required server does not wait, because runs wait for it.
    async fn slot(&self) -> Option<OwnedSemaphorePermit> {
        if self.shared.config.required {
            return None;
        }
        Arc::clone(&self.slots).acquire_owned().await.ok()
    }

    async fn open_without_timeout(
        &self,
    ) -> Result<(RunningService<RoleClient, Handler>, Link, Era), OpenError> {
        let shared = &self.shared;
        let tokens = match (&shared.config.transport, &shared.options.tokens) {
            (TransportConfig::Url(endpoint) | TransportConfig::Http(endpoint), Some(tokens)) => {
                let on_refresh = Box::new({
                    let shared = Arc::clone(shared);
                    move |login| shared.set_login(login)
                });
                let (name, redactor) = (&shared.config.name, &shared.options.redactor);
                crate::auth::restore(name, endpoint, tokens, redactor, on_refresh).await?
            }
            _ => None,
        };
        shared.set_login(if tokens.is_some() { LoginState::Ok } else { LoginState::None });
        let authorize = |tokens| crate::remote::http_client().map(|client| AuthClient::new(client, tokens));
        let authorized = tokens.map(authorize).transpose().map_err(ConnectError::from)?;
        let connector = Connector {
            config: &shared.config,
            launcher: &shared.options.launcher,
            eras: &self.eras,
            handler: &self.handler,
            authorized,
            log: &shared.log,
        };
        let Connection { service, era } = connector.connect().await?;
        let link = Link::new(service.peer().clone(), Arc::clone(&self.handler));
        let (tools, warnings) = link.list_tools(shared.config.connect_timeout).await?;
        shared.set_ready(link.clone(), era, entries(&shared.config, tools), warnings);
        Ok((service, link, era))
    }

    /// Explains why a server was not ready in time, based on its output and its pending request.
    fn late_reason(&self, limit: Duration) -> String {
        let shared = &self.shared;
        let stray = shared.stray_output();
        if let Some(stray @ StrayOutput::SplitMessage) = stray {
            return stray.to_string();
        }
        let seconds = limit.as_secs();
        let what = match shared.unanswered() {
            Some(method) => format!("no answer to `{method}` within {seconds} s"),
            None => format!("it was not ready within {seconds} s"),
        };
        let stray = stray.map(|stray| format!("; {stray}")).unwrap_or_default();
        format!("{what}{stray}; if it is slow to start, set `connect_timeout_secs = {}`", seconds * 3)
    }

    fn failed(&self, reason: &str) -> ServerState {
        let shared = &self.shared;
        let mut reason = reason.to_owned();
        if let Some(ending) = shared.ending() {
            reason.push_str(&format!("; the process exited ({ending})"));
        }
        let tail = shared.stderr_tail();
        if !tail.is_empty() {
            let start = tail.ceil_char_boundary(tail.len().saturating_sub(600));
            reason.push_str(&format!("; it wrote: {}", &tail[start..]));
        }
        ServerState::Failed { reason }
    }

    /// Uses a connection until it ends or must be closed.
    async fn serve(
        &mut self,
        service: RunningService<RoleClient, Handler>,
        link: &Link,
        era: Era,
    ) -> DisconnectReason {
        let closed = service.cancellation_token();
        let since = Instant::now();
        let waiting = service.waiting();
        tokio::pin!(waiting);
        let leave = tokio::select! {
            _ = &mut waiting => DisconnectReason::Died,
            leave = await_command(&self.stop, &mut self.orders) => leave,
            // This runs until another branch completes.
            () = follow(&self.shared, &self.handler, link, era) => DisconnectReason::Died,
        };
        if let DisconnectReason::Died = leave {
            if since.elapsed() >= STABLE_AFTER {
                self.failures = 0;
            }
            // A server that was used is pending while it reconnects; one that only listed its tools is broken.
            let useless = since.elapsed() < MIN_USEFUL && !self.shared.was_called();
            let reason = if useless {
                "it disconnected right after listing its tools"
            } else {
                "the connection ended"
            };
            let failed = self.failed(reason);
            let displayed = if useless || self.failures > 0 { failed.clone() } else { ServerState::Pending };
            return self.back_off(failed, displayed).await;
        }
        let coming_back = matches!(leave, DisconnectReason::Reload);
        self.shared.set_disconnected(if coming_back { ServerState::Pending } else { ServerState::Removing });
        let _ = timeout(DRAIN_TIMEOUT, self.shared.wait_for_calls()).await;
        closed.cancel();
        let _ = waiting.await;
        leave
    }

    /// Waits after a failed attempt, for the backoff or for a command.
    async fn back_off_failed(&mut self, state: ServerState) -> DisconnectReason {
        let local = matches!(self.shared.config.transport, TransportConfig::Stdio { .. });
        // A command that never started would fail again; a URL that was unreachable may become available.
        let hopeless = matches!(state, ServerState::NeedsReauth { .. })
            || (local && self.shared.view().restarts == 0 && self.failures == 0);
        if hopeless {
            self.shared.set_disconnected(state);
            return await_command(&self.stop, &mut self.orders).await;
        }
        self.back_off(state.clone(), state).await
    }

    /// Waits before the next attempt. In the meantime, the server has the state `displayed`.
    async fn back_off(&mut self, state: ServerState, displayed: ServerState) -> DisconnectReason {
        self.failures = self.failures.saturating_add(1);
        let local = matches!(self.shared.config.transport, TransportConfig::Stdio { .. });
        if local && self.failures > MAX_FAILURES {
            self.shared.set_disconnected(state);
            return await_command(&self.stop, &mut self.orders).await;
        }
        if let (ServerState::Failed { reason }, ServerState::Pending) = (state, &displayed) {
            self.shared.note_loss(reason);
        }
        self.shared.set_disconnected(displayed);
        let backoff = (MIN_BACKOFF * 2_u32.pow((self.failures - 1).min(MAX_DOUBLINGS))).min(MAX_BACKOFF);
        tokio::select! {
            () = sleep(backoff) => DisconnectReason::Died,
            leave = await_command(&self.stop, &mut self.orders) => leave,
        }
    }
}

async fn await_command(
    stop: &CancellationToken,
    orders: &mut mpsc::Receiver<ActorCommand>,
) -> DisconnectReason {
    tokio::select! {
        () = stop.cancelled() => DisconnectReason::Stopped,
        order = orders.recv() => match order {
            Some(ActorCommand::Reload) => DisconnectReason::Reload,
            None => DisconnectReason::Stopped,
        },
    }
}

/// Lists the tools again whenever they change, while the connection is used.
async fn follow(shared: &SharedServer, handler: &Handler, link: &Link, era: Era) {
    let listening = async {
        if era == Era::Modern {
            link.listen().await;
        }
    };
    let listing = async {
        loop {
            handler.tools_changed.notified().await;
            match link.list_tools(shared.config.connect_timeout).await {
                Ok((tools, warnings)) => {
                    shared.set_ready(link.clone(), era, entries(&shared.config, tools), warnings);
                }
                Err(error) => shared.note_error(format!("cannot list the changed tools: {error}")),
            }
        }
    };
    tokio::join!(listening, listing);
}

fn entries(config: &ServerConfig, tools: Vec<ListedTool>) -> Vec<ToolEntry> {
    let exposed = tools.into_iter().filter(|tool| config.offers(&tool.name));
    exposed.map(|listed| ToolEntry { exposed: exposed_name(&config.name, &listed.name), listed }).collect()
}

#[derive(Debug, thiserror::Error)]
enum OpenError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("cannot list its tools")]
    List(#[from] CallError),
    #[error(transparent)]
    Auth(#[from] rmcp::transport::auth::AuthError),
}

impl OpenError {
    fn needs_login(&self) -> bool {
        match self {
            Self::Connect(error) => error.needs_login(),
            Self::List(error) => matches!(error, CallError::NeedsLogin { .. }),
            Self::Auth(_) => false,
        }
    }

    fn challenge(&self) -> Option<&str> {
        match self {
            Self::Connect(error) => error.challenge(),
            Self::List(CallError::NeedsLogin { challenge }) => Some(challenge),
            Self::List(_) | Self::Auth(_) => None,
        }
    }
}
