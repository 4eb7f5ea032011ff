//! Changes to the servers in use: staged while a run is at work, made between two of its steps, and told of.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use meerkat_core::{ToolConfigChange, ToolConfigOperation};
use serde_json::json;

use super::ServerSet;
use crate::config::ServerConfig;
use crate::server::{Order, ServerState};

/// A change to the servers in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A server comes; one of the same name goes.
    Add(Box<ServerConfig>),
    /// A server goes. Calls that run may end.
    Remove(String),
    /// A server is connected anew; all of them if none is named.
    Reload(Option<String>),
}

impl ServerSet {
    /// Notes a change that takes effect at the next [`apply`](Self::apply).
    pub fn stage(&self, change: Change) {
        self.staged.lock().unwrap_or_else(PoisonError::into_inner).push(change);
    }

    /// Stages what it takes to have exactly these servers: new ones come, others go, changed ones are replaced.
    pub fn stage_all(&self, wanted: Vec<ServerConfig>) {
        let known: BTreeMap<_, _> = self
            .servers()
            .iter()
            .map(|(name, server)| (name.clone(), server.shared.config.clone()))
            .collect();
        for name in known.keys().filter(|name| !wanted.iter().any(|config| config.name == **name)) {
            self.stage(Change::Remove(name.clone()));
        }
        for config in wanted {
            if known.get(&config.name) != Some(&config) {
                self.stage(Change::Add(Box::new(config)));
            }
        }
    }

    /// Makes the staged changes, and tells of them and of everything that happened to servers since the last time.
    ///
    /// A run calls this between two steps.
    pub fn apply(&self) -> Vec<ToolConfigChange> {
        let staged = std::mem::take(&mut *self.staged.lock().unwrap_or_else(PoisonError::into_inner));
        let mut told: Vec<_> = staged.into_iter().map(|change| self.make(change)).collect();
        for (name, server) in self.servers().iter_mut() {
            told.extend(server.reported.update(name, server.shared.state()));
        }
        told
    }

    /// Makes a change at once.
    pub(super) fn make(&self, change: Change) -> ToolConfigChange {
        match change {
            Change::Add(config) => {
                let name = config.name.clone();
                self.add(*config);
                told(ToolConfigOperation::Add, &name, "applied", "pending")
            }
            Change::Remove(name) => {
                let before = self.servers().remove(&name);
                let (status, phase) =
                    if before.is_some() { ("applied", "removed") } else { ("rejected", "unknown") };
                self.leave(before);
                self.changed.send_replace(());
                told(ToolConfigOperation::Remove, &name, status, phase)
            }
            Change::Reload(name) => {
                let mut servers = self.servers();
                let chosen: Vec<_> = servers
                    .iter_mut()
                    .filter(|(known, _)| name.as_ref().is_none_or(|name| name == *known))
                    .collect();
                let (status, phase) = if chosen.is_empty() && name.is_some() {
                    ("rejected", "unknown")
                } else {
                    ("applied", "pending")
                };
                for (_, server) in chosen.into_iter().filter(|(_, server)| server.task.is_some()) {
                    // A queue that is full holds an order to reload already.
                    let _ = server.orders.try_send(Order::Reload);
                    server.shared.lost(ServerState::Pending);
                    server.reported = Reported::reloaded();
                }
                told(ToolConfigOperation::Reload, name.as_deref().unwrap_or("*"), status, phase)
            }
        }
    }
}

/// The state of a server that was last reported, and the operation that led to it.
pub(super) struct Reported {
    state: ServerState,
    operation: ToolConfigOperation,
}

impl Reported {
    /// A server that was added. It counts as being added until it is ready.
    pub(super) fn added(state: ServerState) -> Self {
        Self { state, operation: ToolConfigOperation::Add }
    }

    /// A server that is connected again.
    pub(super) fn reloaded() -> Self {
        Self { state: ServerState::Pending, operation: ToolConfigOperation::Reload }
    }

    /// Reports a state, unless it is the one that was reported last.
    pub(super) fn update(&mut self, name: &str, state: ServerState) -> Option<ToolConfigChange> {
        if state == self.state {
            return None;
        }
        let change = outcome(self.operation, name, &state);
        if state == ServerState::Ready {
            self.operation = ToolConfigOperation::Reload;
        }
        self.state = state;
        change
    }
}

fn outcome(operation: ToolConfigOperation, name: &str, state: &ServerState) -> Option<ToolConfigChange> {
    let (status, phase) = match state {
        ServerState::Ready => ("applied".to_owned(), "ready"),
        ServerState::Failed { reason } => (format!("failed: {reason}"), "failed"),
        ServerState::NeedsReauth { reason } => (format!("needs login: {reason}"), "needs_reauth"),
        ServerState::Pending => ("connecting".to_owned(), "pending"),
        ServerState::Disabled | ServerState::Removing => return None,
    };
    Some(told(operation, name, &status, phase))
}

pub(super) fn told(
    operation: ToolConfigOperation,
    target: &str,
    status: &str,
    phase: &str,
) -> ToolConfigChange {
    ToolConfigChange {
        operation,
        target: target.to_owned(),
        status: status.to_owned(),
        status_info: Some(json!({ "kind": "external_tool_delta", "phase": phase })),
        persisted: false,
        applied_at_turn: None,
        domain: Some("mcp".to_owned()),
        deferred_catalog_delta: None,
    }
}
