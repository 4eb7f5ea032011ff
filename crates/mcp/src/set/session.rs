//! Servers of one session: the shared servers, except those it removed, and its own.
//!
//! Connections are shared where possible, so ten sessions do not start ten processes. Changes of a session affect only
//! that session.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock};

use meerkat_core::{Tool, ToolConfigChange, ToolConfigOperation, ToolSource};

use super::changes::{ReportedState, ServerChange, config_change};
use super::{ServerSet, listing};
use crate::lock;
use crate::server::{ServerState, ServerView, SharedServer};

/// Servers that one session uses. Dropping it stops the session's own servers.
pub struct SessionServers {
    shared: Arc<ServerSet>,
    /// The session's own servers; most sessions never have any.
    own: OnceLock<Box<ServerSet>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    staged: Vec<Staged>,
    /// Shared servers that the session has removed.
    hidden: BTreeSet<String>,
    /// Last reported states; `None` before the first step.
    reported: Option<BTreeMap<String, ReportedState>>,
}

enum Staged {
    Change(ServerChange),
    /// Use a shared server again.
    Show(String),
}

impl SessionServers {
    /// Creates the servers of a session without its own servers.
    #[must_use]
    pub fn new(shared: Arc<ServerSet>) -> Self {
        Self { shared, own: OnceLock::new(), state: Mutex::default() }
    }

    /// Stages a change for the session's next step.
    pub fn stage(&self, change: ServerChange) {
        lock(&self.state).staged.push(Staged::Change(change));
    }

    /// Stages the use of a shared server of this name, in place of one of the session's own.
    pub fn stage_shared(&self, name: String) {
        lock(&self.state).staged.push(Staged::Show(name));
    }

    /// Returns the names of the session's servers after the staged changes.
    #[must_use]
    pub fn names(&self) -> BTreeSet<String> {
        let mut names: BTreeSet<_> =
            self.visible().into_iter().map(|shared| shared.config.name.clone()).collect();
        for staged in &lock(&self.state).staged {
            match staged {
                Staged::Change(ServerChange::Add(config)) => names.insert(config.name.clone()),
                Staged::Show(name) => names.insert(name.clone()),
                Staged::Change(ServerChange::Remove(name)) => names.remove(name),
                Staged::Change(ServerChange::Reload(_)) => false,
            };
        }
        names
    }

    /// Returns the status of every server of the session.
    #[must_use]
    pub fn views(&self) -> Vec<ServerView> {
        listing::views(&self.visible())
    }

    /// Returns `true` if the session uses exactly the shared servers, and no change is staged.
    #[must_use]
    pub fn is_unchanged(&self) -> bool {
        let state = lock(&self.state);
        let has_own = self.own.get().is_some_and(|own| !own.all().is_empty());
        !has_own && state.staged.is_empty() && state.hidden.is_empty()
    }

    /// Stops the session's own servers and waits until all their processes have exited.
    pub async fn close(&self) {
        if let Some(own) = self.own.get() {
            own.close().await;
        }
    }

    fn has_own(&self, name: &str) -> bool {
        self.own.get().is_some_and(|own| own.has(name))
    }

    /// Applies a change to the session's own servers.
    fn change_own(&self, change: ServerChange) -> ToolConfigChange {
        self.own.get_or_init(|| Box::new(self.shared.sibling())).apply_change(change)
    }

    /// Returns the servers ordered by name, so that the order of tools does not depend on which set a server belongs
    /// to.
    fn visible(&self) -> Vec<Arc<SharedServer>> {
        let state = lock(&self.state);
        let shared = self.shared.all().into_iter();
        let mut servers: Vec<_> = shared
            .filter(|shared| !state.hidden.contains(&shared.config.name))
            .chain(self.own.get().into_iter().flat_map(|own| own.all()))
            .collect();
        drop(state);
        servers.sort_by(|a, b| a.config.name.cmp(&b.config.name));
        servers
    }

    fn is_shared(&self, state: &State, name: &str) -> bool {
        !state.hidden.contains(name) && self.shared.has(name)
    }

    fn apply_staged(&self, staged: Staged) -> Option<ToolConfigChange> {
        match staged {
            Staged::Change(ServerChange::Add(config)) => {
                let name = config.name.clone();
                let mut state = lock(&self.state);
                state.hidden.insert(name.clone());
                state.record(&name, ReportedState::added(ServerState::Pending));
                drop(state);
                Some(self.change_own(ServerChange::Add(config)))
            }
            Staged::Change(ServerChange::Remove(name)) => Some(self.remove(&name)),
            Staged::Change(ServerChange::Reload(name)) => Some(self.reload(name.as_deref())),
            Staged::Show(name) => {
                let mut state = lock(&self.state);
                state.hidden.remove(&name);
                // It is reported as added, even if it replaces another server of this name.
                if let Some(reported) = &mut state.reported {
                    reported.remove(&name);
                }
                drop(state);
                self.has_own(&name).then(|| self.change_own(ServerChange::Remove(name)))
            }
        }
    }

    fn remove(&self, name: &str) -> ToolConfigChange {
        let mut state = lock(&self.state);
        let own = self.has_own(name);
        let known = own || self.is_shared(&state, name);
        // Only a shared server must be hidden; the session's own server is removed.
        if self.shared.has(name) {
            state.hidden.insert(name.to_owned());
        } else {
            state.hidden.remove(name);
        }
        if let Some(reported) = &mut state.reported {
            reported.remove(name);
        }
        drop(state);
        if own {
            self.change_own(ServerChange::Remove(name.to_owned()));
        }
        let (status, phase) = if known { ("applied", "removed") } else { ("rejected", "unknown") };
        config_change(ToolConfigOperation::Remove, name, status, phase)
    }

    fn reload(&self, name: Option<&str>) -> ToolConfigChange {
        let visible = self.visible().into_iter().map(|shared| shared.config.name.clone());
        let chosen: Vec<_> = visible.filter(|known| name.is_none_or(|name| name == known)).collect();
        for known in &chosen {
            lock(&self.state).record(known, ReportedState::reloaded());
            let reload = ServerChange::Reload(Some(known.clone()));
            if self.has_own(known) {
                self.change_own(reload);
            } else {
                self.shared.apply_change(reload);
            }
        }
        let unknown = chosen.is_empty() && name.is_some();
        let (status, phase) = if unknown { ("rejected", "unknown") } else { ("applied", "pending") };
        config_change(ToolConfigOperation::Reload, name.unwrap_or("*"), status, phase)
    }

    /// Reports the state changes of servers since the last call, regardless of their cause.
    fn report_state_changes(&self) -> Vec<ToolConfigChange> {
        let now: BTreeMap<_, _> =
            self.visible().into_iter().map(|shared| (shared.config.name.clone(), shared.state())).collect();
        let mut state = lock(&self.state);
        let added = || ReportedState::added(ServerState::Pending);
        let known =
            state.reported.get_or_insert_with(|| now.keys().map(|name| (name.clone(), added())).collect());
        let mut changes = Vec::new();
        for name in known.keys().filter(|name| !now.contains_key(*name)) {
            changes.push(config_change(ToolConfigOperation::Remove, name, "applied", "removed"));
        }
        known.retain(|name, _| now.contains_key(name));
        for (name, server) in now {
            if !known.contains_key(&name) {
                changes.push(config_change(ToolConfigOperation::Add, &name, "applied", "pending"));
            }
            let reported = known.entry(name.clone()).or_insert_with(added);
            changes.extend(reported.update(&name, server));
        }
        changes
    }
}

impl State {
    /// Records the last reported state of a server.
    fn record(&mut self, name: &str, server: ReportedState) {
        if let Some(reported) = &mut self.reported {
            reported.insert(name.to_owned(), server);
        }
    }
}

impl ToolSource for SessionServers {
    fn apply_changes(&self) -> Vec<ToolConfigChange> {
        let staged = std::mem::take(&mut lock(&self.state).staged);
        let mut changes: Vec<_> = staged.into_iter().filter_map(|staged| self.apply_staged(staged)).collect();
        changes.extend(self.report_state_changes());
        changes
    }

    fn notice(&self) -> Option<String> {
        listing::pending_notice(&self.visible())
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        listing::tools(&self.visible())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::ServerConfig;
    use crate::options::ServerSetOptions;

    #[tokio::test]
    async fn session_without_its_removed_server_is_unchanged() {
        let session = SessionServers::new(Arc::new(ServerSet::new(ServerSetOptions::default())));
        let own = ServerConfig::from_json(&json!({ "name": "own", "command": "/no/such/program" })).unwrap();
        session.stage(ServerChange::Add(Box::new(own)));
        session.apply_changes();
        assert!(!session.is_unchanged());
        session.stage(ServerChange::Remove("own".to_owned()));
        session.apply_changes();
        assert!(session.is_unchanged());
        session.close().await;
    }
}
