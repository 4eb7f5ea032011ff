//! What is known of a server, shared between its actor, its tools and whoever looks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use meerkat_core::Redactor;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::Link;
use crate::config::ServerConfig;
use crate::decode::ListedTool;
use crate::era::Era;
use crate::process::{ProcessLog, StrayOutput};
use crate::set::Notify;

/// How a server is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerState {
    /// It is connecting.
    Pending,
    /// Its tools can be called.
    Ready,
    /// It could not be reached, or died too often.
    Failed {
        /// Why, with the end of its error stream if it has one.
        reason: String,
    },
    /// The user has to log in.
    NeedsReauth {
        /// What the server said.
        reason: String,
    },
    /// Its entry says that it is not in use.
    Disabled,
    /// It is being taken away; calls that run may end.
    Removing,
}

/// How a server knows the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoginState {
    /// It does not need to, or a header says it.
    None,
    /// By a token.
    Ok,
    /// By a token that was renewed.
    Refreshed,
    /// It does not: the user has to log in.
    NeedsReauth,
}

/// A tool's two names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolName {
    /// What the server calls it.
    pub tool: String,
    /// What the model calls it.
    pub exposed: String,
}

/// A server as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerView {
    /// Its name.
    pub name: String,
    /// How it is doing.
    pub state: ServerState,
    /// How it knows the user.
    pub login: LoginState,
    /// The generation of the protocol it speaks.
    pub era: Option<Era>,
    /// The id of its process, while it is connected.
    pub pid: Option<u32>,
    /// How often it was connected again.
    pub restarts: u32,
    /// The last thing that went wrong.
    pub last_error: Option<String>,
    /// The request that a server that is connecting has not answered yet, where that is known.
    pub unanswered: Option<String>,
    /// The end of its error stream.
    pub stderr_tail: String,
    /// Its tools, under both names.
    pub tools: Vec<ToolName>,
    /// About how many tokens their schemas take in every request.
    pub schema_tokens: usize,
    /// What is wrong with its list of tools.
    pub warnings: Vec<String>,
    /// What it says about itself.
    pub instructions: Option<String>,
    /// What it said when it wanted a login, for [`LoginOptions::challenge`](crate::LoginOptions::challenge).
    pub challenge: Option<String>,
}

/// A tool that a server has and its entry allows.
#[derive(Debug, Clone)]
pub(crate) struct ToolEntry {
    pub(crate) listed: ListedTool,
    pub(crate) exposed: String,
}

/// About how many bytes of a schema are one token.
const BYTES_PER_TOKEN: usize = 4;

impl ToolEntry {
    fn weight(&self) -> usize {
        self.exposed.len() + self.listed.description.len() + self.listed.input_schema.to_string().len()
    }
}

#[derive(Debug)]
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

/// What is shared of one server.
pub(crate) struct Shared {
    pub(crate) config: ServerConfig,
    pub(crate) log: Mutex<Option<Arc<ProcessLog>>>,
    facts: Mutex<Facts>,
    calls: watch::Sender<usize>,
    /// Whether a tool was called since the server became ready.
    called: AtomicBool,
    /// Told of every change, for those who wait.
    changed: watch::Sender<()>,
    pub(crate) redactor: Redactor,
    notify: Option<Notify>,
}

/// Counts a call for as long as it lives.
pub(crate) struct CallGuard<'a>(&'a Shared);

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        self.0.calls.send_modify(|count| *count -= 1);
    }
}

impl Shared {
    pub(crate) fn new(
        config: ServerConfig,
        changed: watch::Sender<()>,
        redactor: Redactor,
        notify: Option<Notify>,
    ) -> Self {
        let state = if config.enabled { ServerState::Pending } else { ServerState::Disabled };
        let facts = Facts {
            state,
            login: LoginState::None,
            era: None,
            restarts: 0,
            last_error: None,
            tools: Arc::new([]),
            warnings: Vec::new(),
            link: None,
            challenge: None,
        };
        Self {
            config,
            log: Mutex::new(None),
            facts: Mutex::new(facts),
            calls: watch::Sender::new(0),
            called: AtomicBool::new(false),
            changed,
            redactor,
            notify,
        }
    }

    /// Notifies the user, a line at a time.
    pub(crate) fn notify(&self, line: &str) {
        if let Some(notify) = &self.notify {
            notify(&self.redactor.redact(line));
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

    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn state(&self) -> ServerState {
        self.facts().state.clone()
    }

    pub(crate) fn link(&self) -> Option<Link> {
        self.facts().link.clone()
    }

    pub(crate) fn tools(&self) -> Arc<[ToolEntry]> {
        Arc::clone(&self.facts().tools)
    }

    pub(crate) fn restarted(&self) {
        tracing::debug!(server = self.config.name.as_str(), "the MCP server is connected again");
        self.facts().restarts += 1;
    }

    pub(crate) fn set_login(&self, login: LoginState) {
        self.facts().login = login;
    }

    /// The server wants the user to log in, at least for some of what it offers.
    pub(crate) fn wants_login(&self, challenge: &str) {
        let mut facts = self.facts();
        facts.login = LoginState::NeedsReauth;
        facts.challenge = Some(self.redactor.redact(challenge).into_owned());
    }

    /// The connection is there and its tools are known.
    pub(crate) fn ready(&self, link: Link, era: Era, tools: Vec<ToolEntry>, warnings: Vec<String>) {
        let server = self.config.name.as_str();
        tracing::info!(server, tools = tools.len(), ?era, "the MCP server is ready");
        let mut facts = self.facts();
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

    /// The connection is not there.
    pub(crate) fn lost(&self, mut state: ServerState) {
        if let ServerState::Failed { reason } | ServerState::NeedsReauth { reason } = &mut state {
            self.redactor.redact_text(reason);
            tracing::warn!(server = self.config.name.as_str(), reason, "the MCP server is not there");
        }
        let mut facts = self.facts();
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
        self.redactor.redact_text(&mut error);
        tracing::debug!(server = self.config.name.as_str(), error, "the MCP server had a failure");
        self.facts().last_error = Some(error);
    }

    /// Returns true if a tool was called since the server became ready.
    pub(crate) fn was_called(&self) -> bool {
        self.called.load(Ordering::Relaxed)
    }

    pub(crate) fn begin_call(&self) -> CallGuard<'_> {
        self.called.store(true, Ordering::Relaxed);
        self.calls.send_modify(|count| *count += 1);
        CallGuard(self)
    }

    /// Returns when no call runs.
    pub(crate) async fn calls_ended(&self) {
        let mut calls = self.calls.subscribe();
        let _ = calls.wait_for(|count| *count == 0).await;
    }

    pub(crate) fn stderr_tail(&self) -> String {
        let tail = self.process_log().map(|log| log.stderr_tail()).unwrap_or_default();
        self.redactor.redact(&tail).into_owned()
    }

    pub(crate) fn ending(&self) -> Option<String> {
        self.process_log()?.ending()
    }

    /// Returns what a program wrote where only messages belong, if it wrote such a thing.
    pub(crate) fn stray_output(&self) -> Option<StrayOutput> {
        self.process_log()?.stray_output()
    }

    /// Returns the method of the latest request that a program has not answered.
    pub(crate) fn unanswered(&self) -> Option<String> {
        self.process_log()?.unanswered()
    }

    fn process_log(&self) -> Option<Arc<ProcessLog>> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn view(&self) -> ServerView {
        let stderr_tail = self.stderr_tail();
        let pid = self.process_log().filter(|_| self.link().is_some()).and_then(|log| log.pid());
        let unanswered = self.unanswered().filter(|_| self.state() == ServerState::Pending);
        let facts = self.facts();
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
