//! The conversation about a run's structured output.

use std::sync::Arc;

use super::outcome::ExtractionError;
use super::prompt;
use crate::{AssistantBlock, Message, StopReason, Timestamp};

/// Messages exchanged with the model for the structured output, outside the session.
#[derive(Debug)]
pub(super) struct Extraction {
    messages: Vec<Arc<Message>>,
    last_output: String,
    /// Number of responses so far.
    answers: u32,
    /// Number of failed calls since the last response.
    failures: u32,
}

impl Extraction {
    pub(super) fn new(own_prompt: Option<&str>, now: Timestamp) -> Self {
        let messages = vec![prompt::extraction(own_prompt, now)];
        Self { messages, last_output: String::new(), answers: 0, failures: 0 }
    }

    pub(super) fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    pub(super) fn answers(&self) -> u32 {
        self.answers
    }

    /// Adds a response.
    pub(super) fn responded(&mut self, text: String) {
        self.last_output = text;
        self.answers += 1;
        self.failures = 0;
    }

    /// Adds a failed call, and returns the number of failures since the last response.
    pub(super) fn failed(&mut self) -> u32 {
        self.failures += 1;
        self.failures
    }

    /// Requests the output again, because the last one is invalid.
    pub(super) fn retry(&mut self, reason: &str, now: Timestamp) {
        if !self.last_output.is_empty() {
            let text = self.last_output.clone();
            self.messages.push(Arc::new(Message::Assistant {
                blocks: vec![AssistantBlock::Text { text, meta: None }],
                stop_reason: StopReason::EndTurn,
                created_at: now,
            }));
        }
        self.messages.push(prompt::extraction_retry(reason, now));
    }

    pub(super) fn error(&self, reason: &str) -> ExtractionError {
        ExtractionError {
            last_output: self.last_output.clone(),
            attempts: self.answers,
            reason: reason.to_owned(),
        }
    }
}
