//! MCP servers of the sessions that this process has run.
//!
//! A session that changed its servers is kept until it is archived. Of the other sessions, only the most recent are
//! kept: the next run of a dropped session starts with the shared servers, like its first run.

use std::collections::HashMap;
use std::sync::Arc;

use meerkat_core::SessionId;
use meerkat_mcp::{LoadedTools, SessionServers};

/// Maximum number of idle, unchanged sessions to keep.
const MAX_IDLE: usize = 1024;

/// State of a session in this process.
#[derive(Clone)]
pub(super) struct Live {
    pub(super) servers: Arc<SessionServers>,
    pub(super) loaded: LoadedTools,
    /// Number of its latest run in this process.
    latest: u64,
}

impl Live {
    pub(super) fn new(servers: SessionServers) -> Self {
        Self { servers: Arc::new(servers), loaded: LoadedTools::default(), latest: 0 }
    }

    /// Returns `true` if dropping the session loses nothing but the tool names loaded by the model.
    fn is_idle(&self) -> bool {
        Arc::strong_count(&self.servers) == 1 && self.servers.is_unchanged()
    }
}

/// The sessions of one process.
#[derive(Default)]
pub(super) struct LiveSessions {
    known: HashMap<SessionId, Live>,
    runs: u64,
    /// Number of sessions at which idle ones are dropped again.
    sweep_at: usize,
}

impl LiveSessions {
    pub(super) fn get(&self, session: SessionId) -> Option<&Live> {
        self.known.get(&session)
    }

    /// Returns a session for its next run.
    pub(super) fn join(&mut self, session: SessionId, new: impl FnOnce() -> Live) -> Live {
        self.runs += 1;
        let live = self.known.entry(session).or_insert_with(new);
        live.latest = self.runs;
        let live = live.clone();
        if self.known.len() > self.sweep_at.max(MAX_IDLE) {
            self.drop_idle();
        }
        live
    }

    pub(super) fn remove(&mut self, session: SessionId) -> Option<Live> {
        self.known.remove(&session)
    }

    pub(super) fn take_all(&mut self) -> Vec<Live> {
        self.known.drain().map(|(_, live)| live).collect()
    }

    /// Drops all but the most recent idle sessions. Leaves half of the limit free, so that not every run repeats this.
    fn drop_idle(&mut self) {
        let idle = self.known.iter().filter(|(_, live)| live.is_idle());
        let mut idle: Vec<_> = idle.map(|(session, live)| (live.latest, *session)).collect();
        idle.sort_unstable();
        for (_, session) in &idle[..idle.len().saturating_sub(MAX_IDLE / 2)] {
            self.known.remove(session);
        }
        self.sweep_at = self.known.len() + MAX_IDLE / 2;
    }
}

#[cfg(test)]
mod tests {
    use meerkat_mcp::{ServerChange, ServerSet, ServerSetOptions};
    use uuid::Uuid;

    use super::*;

    fn id(number: usize) -> SessionId {
        SessionId::from_uuid(Uuid::from_u128(number as u128))
    }

    #[test]
    fn idle_sessions_are_dropped() {
        let shared = Arc::new(ServerSet::new(ServerSetOptions::default()));
        let mut sessions = LiveSessions::default();
        let mut join =
            |number| sessions.join(id(number), || Live::new(SessionServers::new(Arc::clone(&shared))));
        let running = join(0);
        join(1).servers.stage(ServerChange::Reload(None));
        for number in 2..5 * MAX_IDLE {
            join(number);
        }
        join(5 * MAX_IDLE);
        assert!(sessions.known.len() <= MAX_IDLE + 2, "{}", sessions.known.len());
        let has = |number| sessions.get(id(number)).is_some();
        assert_eq!(
            [has(0), has(1), has(2), has(5 * MAX_IDLE - 1), has(5 * MAX_IDLE)],
            [true, true, false, true, true]
        );
        drop(running);
    }
}
