//! The sessions that this process has run, as far as their servers are concerned.
//!
//! A session that changed its servers is kept until it is archived. Of the others, the latest are kept: the next run of
//! a session that was dropped starts with the shared servers, as its first run did.

use std::collections::HashMap;
use std::sync::Arc;

use meerkat_core::SessionId;
use meerkat_mcp::{LoadedTools, SessionServers};

/// Number of idle, unchanged sessions that are kept.
const MAX_IDLE: usize = 1024;

/// What a session has in this process.
#[derive(Clone)]
pub(super) struct Live {
    pub(super) servers: Arc<SessionServers>,
    pub(super) loaded: LoadedTools,
    /// The number of its latest run in this process.
    latest: u64,
}

impl Live {
    pub(super) fn new(servers: SessionServers) -> Self {
        Self { servers: Arc::new(servers), loaded: LoadedTools::default(), latest: 0 }
    }

    /// Returns true if nothing but tool names the model has loaded would be lost with it.
    fn is_idle(&self) -> bool {
        Arc::strong_count(&self.servers) == 1 && self.servers.is_unchanged()
    }
}

/// The sessions of one process.
#[derive(Default)]
pub(super) struct LiveSessions {
    known: HashMap<SessionId, Live>,
    runs: u64,
    /// The number of sessions at which idle ones are dropped again.
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

    /// Drops all but the latest idle sessions. Half of the limit stays free, so that this is not done for every run.
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
    use meerkat_mcp::{Change, ServerSet, SetOptions};
    use uuid::Uuid;

    use super::*;

    fn id(number: usize) -> SessionId {
        SessionId::from_uuid(Uuid::from_u128(number as u128))
    }

    #[test]
    fn idle_sessions_are_dropped() {
        let shared = Arc::new(ServerSet::new(SetOptions::default()));
        let mut sessions = LiveSessions::default();
        let mut join =
            |number| sessions.join(id(number), || Live::new(SessionServers::new(Arc::clone(&shared))));
        let running = join(0);
        join(1).servers.stage(Change::Reload(None));
        for number in 2..5 * MAX_IDLE {
            join(number);
        }
        join(5 * MAX_IDLE);
        assert!(sessions.known.len() <= MAX_IDLE + 2, "{}", sessions.known.len());
        let kept = |number| sessions.get(id(number)).is_some();
        assert_eq!(
            [kept(0), kept(1), kept(2), kept(5 * MAX_IDLE - 1), kept(5 * MAX_IDLE)],
            [true, true, false, true, true]
        );
        drop(running);
    }
}
