//! The port between runs and what is added to them.

use std::sync::Arc;
use std::time::Duration;

use meerkat_contracts::SkillKey;
use meerkat_core::run::CompactedMessages;
use meerkat_core::{AgentEvent, BoxFuture, ContentBlock, ModelInfo, SessionId, Timestamp, ToolSource};
use meerkat_store::Change;

use super::{ToolOverlay, ToolsError};
use crate::config::{Config, CurrentConfig};
use crate::records::SessionSettings;

/// Adds tools, sections of the system prompt, and events to runs.
pub(crate) trait RunExtension: Send + Sync {
    /// Waits until everything that runs need is ready. Called before runs that may use tools.
    fn require(&self) -> BoxFuture<'_, Result<(), ToolsError>> {
        Box::pin(async { Ok(()) })
    }

    /// Applies the config.
    fn refresh<'a>(&'a self, _: &'a CurrentConfig) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }

    /// Applies the config, and returns the skills that a request inserts before its prompt.
    fn inject<'a>(
        &'a self,
        _: SkillRequest<'a>,
        _: &'a CurrentConfig,
    ) -> BoxFuture<'a, Result<Option<InjectedSkills>, ToolsError>> {
        Box::pin(async { Ok(None) })
    }

    /// Returns what the extension adds to a run.
    fn contribute<'a>(&'a self, run: &'a RunView<'a>) -> BoxFuture<'a, Contribution>;

    /// Drops what belongs to an archived session.
    fn forget(&self, _: SessionId) {}

    /// Stops background work at once.
    fn stop(&self) {}

    /// Ends what is still running, when no run is active.
    fn close(&self, _: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// The extensions of a runtime, in the order of precedence of their tools.
pub(crate) type Extensions = Vec<Arc<dyn RunExtension>>;

/// Skills that a request names: those for the system prompt, and those for the prompt.
pub(crate) type SkillRequest<'a> = (&'a [SkillKey], &'a [SkillKey]);

/// Skills that a request inserts before its prompt, and the event about them.
pub(crate) type InjectedSkills = (Vec<ContentBlock>, AgentEvent);

/// The parts of a run that extensions depend on.
pub(crate) struct RunView<'a> {
    pub(crate) session: SessionId,
    pub(crate) settings: &'a SessionSettings,
    pub(crate) overlay: &'a ToolOverlay,
    pub(crate) config: &'a Arc<Config>,
    pub(crate) model: &'a ModelInfo,
}

/// Additions of an extension to a run.
#[derive(Default)]
pub(crate) struct Contribution {
    /// Sections for the system prompt.
    pub(crate) sections: Vec<String>,
    pub(crate) sources: Vec<Arc<dyn ToolSource>>,
    /// Events emitted right after the run's first event.
    pub(crate) events: Vec<AgentEvent>,
    pub(crate) warnings: Vec<String>,
    pub(crate) index: Option<Arc<dyn CompactionIndex>>,
}

impl Contribution {
    /// Adds what another extension contributes.
    pub(crate) fn extend(&mut self, other: Self) {
        self.sections.extend(other.sections);
        self.sources.extend(other.sources);
        self.events.extend(other.events);
        self.warnings.extend(other.warnings);
        self.index = self.index.take().or(other.index);
    }
}

/// Makes compacted messages searchable.
pub(crate) trait CompactionIndex: Send + Sync {
    /// Enables the search in the messages that earlier runs compacted.
    fn enable(&self);

    /// Returns the change that stores compacted messages, if there is anything to store.
    fn changes(&self, session: SessionId, compacted: &CompactedMessages, at: Timestamp) -> Option<Change>;
}
