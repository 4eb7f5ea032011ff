//! Responses that a provider pauses because its own tools are still running; sending them back continues them.

use std::sync::Arc;

use super::effect::CallChange;
use super::machine::{Next, Run};
use crate::{AgentEvent, Message, ResponseStatus};

/// Maximum number of consecutive continuations; after that, the incomplete response is accepted.
const MAX_PAUSES: u32 = 8;

/// Pauses of the current response.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    count: u32,
    /// Text before the last pause.
    text: String,
}

impl Run {
    /// Commits a response without calls, and continues the response or ends the run.
    pub(super) fn commit_text(&mut self, message: Arc<Message>, extent: ResponseStatus, ended: AgentEvent) {
        let mut text = std::mem::take(&mut self.pauses.text);
        text.push_str(&message.assistant_text().unwrap_or_default());
        if extent == ResponseStatus::Complete || self.pauses.count >= MAX_PAUSES {
            self.pauses = Pauses::default();
            return self.conclude(message, text, ended);
        }
        self.pauses = Pauses { count: self.pauses.count + 1, text };
        self.commit(vec![message], CallChange::None, Next::Step);
        self.effects.emit(ended);
    }
}
