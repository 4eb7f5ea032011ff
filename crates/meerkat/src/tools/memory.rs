//! Memory of a run: compacted messages become searchable in the commit that compacts them.

use std::sync::Arc;

use meerkat_core::run::CompactedMessages;
use meerkat_core::{BoxFuture, SessionId, Timestamp};
use meerkat_memory::{Memory, Scope, memories};
use meerkat_store::{Change, Store};

use super::{CompactionIndex, Contribution, RunExtension, RunView};
use crate::config::MemoryScope;

/// Memory of compacted messages.
pub(crate) struct MemoryExtension {
    pub(crate) store: Arc<dyn Store>,
}

impl RunExtension for MemoryExtension {
    /// Returns the agent's memory tool if the session or else the config enables memory.
    fn contribute<'a>(&'a self, run: &'a RunView<'a>) -> BoxFuture<'a, Contribution> {
        let mut contribution = Contribution::default();
        if run.settings.memory.unwrap_or(run.config.memory.enabled) {
            let scope = match run.config.memory.scope {
                MemoryScope::Session => Scope::Session,
                MemoryScope::Realm => Scope::Realm,
            };
            let memory = Arc::new(Memory::new(Arc::clone(&self.store), scope));
            contribution.sources.push(Arc::clone(&memory) as _);
            contribution.index = Some(Arc::new(RunMemory(memory)));
        }
        Box::pin(async { contribution })
    }
}

/// The memory of one run.
struct RunMemory(Arc<Memory>);

impl CompactionIndex for RunMemory {
    fn enable(&self) {
        self.0.enable();
    }

    fn changes(&self, session: SessionId, compacted: &CompactedMessages, at: Timestamp) -> Option<Change> {
        let memories = memories(compacted.first, &compacted.messages);
        if memories.is_empty() {
            return None;
        }
        self.0.enable();
        Some(Change::IndexMemories { session, memories, at })
    }
}
