//! Responses that a provider pauses because its own tools are still running; sending them back continues them.

use crate::{Message, ResponseStatus};

/// Maximum number of consecutive continuations; after that, the incomplete response is accepted.
const MAX_PAUSES: u32 = 8;

/// Pauses of the current response.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    count: u32,
    /// Text before the last pause.
    text: String,
}

impl Pauses {
    /// Adds a part of a response, and returns the full text if no other part follows.
    pub(super) fn add(&mut self, message: &Message, status: ResponseStatus) -> Option<String> {
        self.text.push_str(&message.assistant_text().unwrap_or_default());
        if status == ResponseStatus::Complete || self.count >= MAX_PAUSES {
            return Some(std::mem::take(self).text);
        }
        self.count += 1;
        None
    }
}
