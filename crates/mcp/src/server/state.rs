//! State of a server, shared between its actor, its tools, and readers of its status.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use super::Link;
use crate::auth::LoginState;
use crate::config::ServerConfig;
use crate::decode::ListedTool;
use crate::era::Era;
use crate::lock;
use crate::options::ServerSetOptions;
use crate::process::{ProcessLog, StrayOutput};

/// State of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ServerState {
    /// Connecting.
    #[default]
    Pending,
    /// Connected; the tools can be called.
    Ready,
    /// Unreachable, or exited too often.
    Failed {
        /// The reason, with the end of the server's stderr, if any.
        reason: String,
    },
    /// Waiting for the user to log in.
    NeedsReauth {
        /// Error of the server.
        reason: String,
    },
    /// Disabled in its config entry.
    Disabled,
    /// Being removed; active calls may finish.
    Removing,
}

/// Both names of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolName {
    /// Name on the server.
    pub tool: String,
    /// Name exposed to the model.
    pub exposed: String,
}

/// Status of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerView {
    /// Name of the server.
    pub name: String,
    /// Connection state.
    pub state: ServerState,
    /// Login state.
    pub login: LoginState,
    /// Protocol era of the server.
    pub era: Option<Era>,
    /// Process id, while connected.
    pub pid: Option<u32>,
    /// Number of reconnects.
    pub restarts: u32,
    /// Most recent error.
    pub last_error: Option<String>,
    /// Method of the pending request of a connecting server, if known.
    pub unanswered: Option<String>,
    /// End of the server's stderr.
    pub stderr_tail: String,
    /// Tools, with both names.
    pub tools: Vec<ToolName>,
    /// Approximate number of tokens that the tool schemas add to every request.
    pub schema_tokens: usize,
    /// Problems with the tool list.
    pub warnings: Vec<String>,
    /// Instructions of the server.
    pub instructions: Option<String>,
    /// Login challenge of the server, for [`LoginOptions::challenge`](crate::LoginOptions::challenge).
    pub challenge: Option<String>,
}

/// A tool of a server that its config entry allows.
#[derive(Debug, Clone)]
pub(crate) struct ToolEntry {
    pub(crate) listed: ListedTool,
    pub(crate) exposed: String,
}

/// Approximate number of bytes of a schema per token.
const BYTES_PER_TOKEN: usize = 4;

impl ToolEntry {
    fn weight(&self) -> usize {
        self.exposed.len() + self.listed.description.len() + self.listed.input_schema.to_string().len()
    }
}

#[derive(Debug, Default)]
struct Facts {
    state: ServerState,
    login: LoginState,
    era: Option<Era>,
    restarts: u32,
    last_error: Option<String>,
    tools: Arc<[ToolEntry]>,
    warnings: Vec<String>,
    link: Option<Link>,
    challenge: Option<String>,
}

/// Shared state of one server.
pub(crate) struct SharedServer {
    pub(crate) config: ServerConfig,
    pub(crate) options: Arc<ServerSetOptions>,
    pub(crate) log: Mutex<Option<Arc<ProcessLog>>>,
    facts: Mutex<Facts>,
    calls: watch::Sender<usize>,
    /// Whether a tool was called since the server became ready.
    called: AtomicBool,
    /// Notified of every change.
    changed: watch::Sender<()>,
}

/// Guard that counts an active call.
pub(crate) struct CallGuard<'a>(&'a SharedServer);

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        self.0.calls.send_modify(|count| *count -= 1);
    }
}

impl SharedServer {
    pub(crate) fn new(
        config: ServerConfig,
        changed: watch::Sender<()>,
        options: Arc<ServerSetOptions>,
    ) -> Self {
        let state = if config.enabled { ServerState::Pending } else { ServerState::Disabled };
        Self {
            config,
            options,
            log: Mutex::default(),
            facts: Mutex::new(Facts { state, ..Facts::default() }),
            calls: watch::Sender::new(0),
            called: AtomicBool::default(),
            changed,
        }
    }

    /// Sends a line to the user.
    pub(crate) fn notify(&self, line: &str) {
        if let Some(notify) = &self.options.notify {
            notify(&self.options.redactor.redact(line));
        }
    }

    /// Notifies the user that the server is still connecting, and of what it has not answered.
    pub(crate) fn notify_waiting(&self) {
        let name = &self.config.name;
        let limit = self.config.connect_timeout.as_secs();
        let what = self.unanswered().map(|method| format!(", which has not answered `{method}`"));
        let what = what.unwrap_or_default();
        self.notify(&format!("notice: waiting for the MCP server `{name}`{what} (at most {limit} s)"));
    }

    pub(crate) fn state(&self) -> ServerState {
        lock(&self.facts).state.clone()
    }

    pub(crate) fn link(&self) -> Option<Link> {
        lock(&self.facts).link.clone()
    }

    pub(crate) fn tools(&self) -> Arc<[ToolEntry]> {
        Arc::clone(&lock(&self.facts).tools)
    }

    pub(crate) fn count_restart(&self) {
        tracing::debug!(server = self.config.name.as_str(), "the MCP server has reconnected");
        lock(&self.facts).restarts += 1;
    }

    pub(crate) fn set_login(&self, login: LoginState) {
        lock(&self.facts).login = login;
    }

    /// Records that the server requires a login, at least for some of its features.
    pub(crate) fn set_needs_login(&self, challenge: &str) {
        let mut facts = lock(&self.facts);
        facts.login = LoginState::NeedsReauth;
        facts.challenge = Some(self.options.redactor.redact(challenge).into_owned());
    }

    /// Records a connection and its tools.
    pub(crate) fn set_ready(&self, link: Link, era: Era, tools: Vec<ToolEntry>, warnings: Vec<String>) {
        let server = self.config.name.as_str();
        tracing::info!(server, tools = tools.len(), ?era, "the MCP server is ready");
        let mut facts = lock(&self.facts);
        if facts.link.is_none() {
            self.called.store(false, Ordering::Relaxed);
        }
        facts.state = ServerState::Ready;
        facts.era = Some(era);
        facts.link = Some(link);
        facts.tools = tools.into();
        facts.warnings = warnings;
        drop(facts);
        self.changed.send_replace(());
    }

    /// Records that no connection exists.
    pub(crate) fn set_disconnected(&self, mut state: ServerState) {
        if let ServerState::Failed { reason } | ServerState::NeedsReauth { reason } = &mut state {
            self.options.redactor.redact_text(reason);
            let server = self.config.name.as_str();
            match lock(&self.facts).state {
                // Each further attempt fails, too.
                ServerState::Failed { .. } => {
                    tracing::debug!(server, reason, "the MCP server is unavailable")
                }
                _ => tracing::warn!(server, reason, "the MCP server is unavailable"),
            }
        }
        let mut facts = lock(&self.facts);
        if let ServerState::Failed { reason } | ServerState::NeedsReauth { reason } = &state {
            facts.last_error = Some(reason.clone());
        }
        if let ServerState::NeedsReauth { .. } = &state {
            facts.login = LoginState::NeedsReauth;
        }
        facts.link = None;
        facts.tools = Arc::new([]);
        facts.state = state;
        drop(facts);
        self.changed.send_replace(());
    }

    pub(crate) fn note_error(&self, mut error: String) {
        self.options.redactor.redact_text(&mut error);
        tracing::debug!(server = self.config.name.as_str(), error, "the MCP server reported a failure");
        lock(&self.facts).last_error = Some(error);
    }

    /// Returns `true` if a tool was called since the server became ready.
    pub(crate) fn was_called(&self) -> bool {
        self.called.load(Ordering::Relaxed)
    }

    pub(crate) fn begin_call(&self) -> CallGuard<'_> {
        self.called.store(true, Ordering::Relaxed);
        self.calls.send_modify(|count| *count += 1);
        CallGuard(self)
    }

    /// Waits until no call is active.
    pub(crate) async fn wait_for_calls(&self) {
        let mut calls = self.calls.subscribe();
        let _ = calls.wait_for(|count| *count == 0).await;
    }

    pub(crate) fn stderr_tail(&self) -> String {
        let tail = self.process_log().map(|log| log.stderr_tail()).unwrap_or_default();
        self.options.redactor.redact(&tail).into_owned()
    }

    pub(crate) fn ending(&self) -> Option<String> {
        self.process_log()?.ending()
    }

    /// Returns output of the process on stdout that is not a message, if any.
    pub(crate) fn stray_output(&self) -> Option<StrayOutput> {
        self.process_log()?.stray_output()
    }

    /// Returns the method of the latest request that the process has not responded to.
    pub(crate) fn unanswered(&self) -> Option<String> {
        self.process_log()?.unanswered()
    }

    fn process_log(&self) -> Option<Arc<ProcessLog>> {
        lock(&self.log).clone()
    }

    pub(crate) fn view(&self) -> ServerView {
        let stderr_tail = self.stderr_tail();
        let pid = self.process_log().filter(|_| self.link().is_some()).and_then(|log| log.pid());
        let unanswered = self.unanswered().filter(|_| self.state() == ServerState::Pending);
        let facts = lock(&self.facts);
        let name =
            |entry: &ToolEntry| ToolName { tool: entry.listed.name.clone(), exposed: entry.exposed.clone() };
        ServerView {
            name: self.config.name.clone(),
            state: facts.state.clone(),
            login: facts.login,
            era: facts.era,
            pid,
            restarts: facts.restarts,
            last_error: facts.last_error.clone(),
            unanswered,
            stderr_tail,
            tools: facts.tools.iter().map(name).collect(),
            schema_tokens: facts.tools.iter().map(ToolEntry::weight).sum::<usize>() / BYTES_PER_TOKEN,
            warnings: facts.warnings.clone(),
            instructions: facts.link.as_ref().and_then(Link::instructions),
            challenge: facts.challenge.clone(),
        }
    }
}
