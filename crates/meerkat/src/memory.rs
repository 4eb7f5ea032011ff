//! Memory of a run: compacted messages become searchable in the commit that compacts them.

use std::sync::Arc;

use meerkat_core::run::{CompactedMessages, Progress};
use meerkat_core::{SessionId, Timestamp, ToolSource};
use meerkat_memory::{Memory, Scope, memories};
use meerkat_store::{Change, Store};

use crate::config::{Config, MemoryScope};
use crate::session::SessionSettings;

/// The memory of one run.
pub(crate) struct RunMemory(Arc<Memory>);

impl RunMemory {
    /// Creates the memory if the session or else the config enables it.
    pub(crate) fn from_config(
        config: &Config,
        settings: &SessionSettings,
        store: &Arc<dyn Store>,
        progress: &Progress,
    ) -> Option<Self> {
        let scope = match config.memory.scope {
            MemoryScope::Session => Scope::Session,
            MemoryScope::Realm => Scope::Realm,
        };
        let enabled = settings.memory.unwrap_or(config.memory.enabled);
        let memory = enabled.then(|| Memory::new(Arc::clone(store), scope))?;
        if progress.compaction.is_some() {
            memory.enable();
        }
        Some(Self(Arc::new(memory)))
    }

    /// Returns the source of the agent's memory tool.
    pub(crate) fn source(&self) -> Arc<dyn ToolSource> {
        Arc::clone(&self.0) as _
    }

    /// Returns the change that stores compacted messages as memories, if there are any.
    pub(crate) fn changes(
        &self,
        session: SessionId,
        compacted: &CompactedMessages,
        at: Timestamp,
    ) -> Option<Change> {
        let memories = memories(compacted.first, &compacted.messages);
        if memories.is_empty() {
            return None;
        }
        self.0.enable();
        Some(Change::IndexMemories { session, memories, at })
    }
}
