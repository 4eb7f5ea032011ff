//! Answers that a provider breaks off because its own tools are still at work, to be continued when they are
//! sent back.

use std::sync::Arc;

use super::effect::CallChange;
use super::machine::{Next, Run};
use crate::{AgentEvent, Extent, Message};

/// How often in a row an answer is continued; one that still is not whole then is taken as it is.
const MAX_PAUSES: u32 = 8;

/// The pauses of the answer that is being given.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    count: u32,
    /// What was said before the last pause.
    text: String,
}

impl Run {
    /// Commits an answer without calls, and goes on with it or ends.
    pub(super) fn say(&mut self, message: Arc<Message>, extent: Extent, ended: AgentEvent) {
        let mut text = std::mem::take(&mut self.pauses.text);
        text.push_str(&message.assistant_text().unwrap_or_default());
        if extent == Extent::Whole || self.pauses.count >= MAX_PAUSES {
            self.pauses = Pauses::default();
            return self.conclude(message, text, ended);
        }
        self.pauses = Pauses { count: self.pauses.count + 1, text };
        self.commit(vec![message], CallChange::None, Next::Step);
        self.emit(ended);
    }
}
