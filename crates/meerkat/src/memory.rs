//! What a run remembers: what compaction leaves out becomes findable in the same commit.

use std::sync::Arc;

use meerkat_core::run::{LeftOut, Progress};
use meerkat_core::{SessionId, Timestamp, ToolSource};
use meerkat_memory::{Memory, Scope, memories};
use meerkat_store::{Change, Store};

use crate::config::{Config, MemoryScope};
use crate::session::SessionSettings;

/// The memory of one run.
pub(crate) struct RunMemory(Arc<Memory>);

impl RunMemory {
    /// Makes it, if the session, or else the config, wants it.
    pub(crate) fn of(
        config: &Config,
        settings: &SessionSettings,
        store: &Arc<dyn Store>,
        progress: &Progress,
    ) -> Option<Self> {
        let scope = match config.memory.scope {
            MemoryScope::Session => Scope::Session,
            MemoryScope::Realm => Scope::Realm,
        };
        let wanted = settings.memory.unwrap_or(config.memory.enabled);
        let memory = wanted.then(|| Memory::new(Arc::clone(store), scope))?;
        if progress.compaction.is_some() {
            memory.awaken();
        }
        Some(Self(Arc::new(memory)))
    }

    /// Returns where the agent has its tool from.
    pub(crate) fn source(&self) -> Arc<dyn ToolSource> {
        Arc::clone(&self.0) as _
    }

    /// Says what is to be remembered.
    pub(crate) fn changes(&self, session: SessionId, left_out: &LeftOut, at: Timestamp) -> Option<Change> {
        let memories = memories(left_out.first, &left_out.messages);
        if memories.is_empty() {
            return None;
        }
        self.0.awaken();
        Some(Change::Remember { session, memories, at })
    }
}
