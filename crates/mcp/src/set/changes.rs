//! Changes to the servers in use: staged during a run, applied between two steps, and reported.

use meerkat_core::{ToolConfigChange, ToolConfigOperation};
use serde_json::json;

use super::ServerSet;
use crate::config::ServerConfig;
use crate::lock;
use crate::server::{ActorCommand, ServerState};

/// A change to the servers in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerChange {
    /// Add a server, replacing one of the same name.
    Add(Box<ServerConfig>),
    /// Remove a server. Active calls may finish.
    Remove(String),
    /// Reconnect a server, or all servers if none is named.
    Reload(Option<String>),
}

impl ServerSet {
    /// Stages a change for the next [`apply`](Self::apply).
    pub fn stage(&self, change: ServerChange) {
        lock(&self.staged).push(change);
    }

    /// Stages the changes to exactly these servers: adds new ones, removes others, and replaces changed ones.
    pub fn stage_all(&self, wanted: Vec<ServerConfig>) {
        let known = self.all();
        let names = known.iter().map(|server| &server.config.name);
        for name in names.filter(|name| !wanted.iter().any(|config| config.name == **name)) {
            self.stage(ServerChange::Remove(name.clone()));
        }
        for config in wanted {
            if !known.iter().any(|server| server.config == config) {
                self.stage(ServerChange::Add(Box::new(config)));
            }
        }
    }

    /// Applies the staged changes, and reports them and all state changes of servers since the last call.
    ///
    /// A run calls this between two steps.
    pub fn apply(&self) -> Vec<ToolConfigChange> {
        let staged = std::mem::take(&mut *lock(&self.staged));
        let mut changes: Vec<_> = staged.into_iter().map(|change| self.apply_change(change)).collect();
        for (name, server) in lock(&self.servers).iter_mut() {
            changes.extend(server.reported.update(name, server.shared.state()));
        }
        changes
    }

    /// Applies a change immediately.
    pub(super) fn apply_change(&self, change: ServerChange) -> ToolConfigChange {
        match change {
            ServerChange::Add(config) => {
                let name = config.name.clone();
                self.add(*config);
                config_change(ToolConfigOperation::Add, &name, "applied", "pending")
            }
            ServerChange::Remove(name) => {
                let before = lock(&self.servers).remove(&name);
                let (status, phase) =
                    if before.is_some() { ("applied", "removed") } else { ("rejected", "unknown") };
                self.leave(before);
                self.changed.send_replace(());
                config_change(ToolConfigOperation::Remove, &name, status, phase)
            }
            ServerChange::Reload(name) => {
                let mut servers = lock(&self.servers);
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
                    // A full queue already contains a reload.
                    let _ = server.orders.try_send(ActorCommand::Reload);
                    server.shared.set_disconnected(ServerState::Pending);
                    server.reported = ReportedState::reloaded();
                }
                config_change(ToolConfigOperation::Reload, name.as_deref().unwrap_or("*"), status, phase)
            }
        }
    }
}

/// Last reported state of a server, and the operation that led to it.
pub(super) struct ReportedState {
    state: ServerState,
    operation: ToolConfigOperation,
}

impl ReportedState {
    /// Creates the entry of an added server. It counts as being added until it is ready.
    pub(super) fn added(state: ServerState) -> Self {
        Self { state, operation: ToolConfigOperation::Add }
    }

    /// Creates the entry of a reconnecting server.
    pub(super) fn reloaded() -> Self {
        Self { state: ServerState::Pending, operation: ToolConfigOperation::Reload }
    }

    /// Reports a state, unless it was the last one reported.
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
    Some(config_change(operation, name, &status, phase))
}

pub(super) fn config_change(
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
