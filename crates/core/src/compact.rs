//! When to compact a history and where to cut it: pure functions over messages.
//!
//! The unit is the group: a message together with the tool results that answer it. A cut is always between two
//! groups, so a call is never separated from its result.

use std::collections::HashSet;
use std::sync::Arc;

use crate::transcript::is_summary;
use crate::{AssistantBlock, ContentBlock, Message, Transcript};

/// Thresholds for compaction, and the amount of history to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactionPolicy {
    /// Token count of the history that triggers compaction.
    pub threshold: u64,
    /// Context window of the model, if known.
    pub window: Option<u64>,
    /// Maximum number of recent groups kept unchanged.
    pub keep_groups: usize,
    /// Maximum length of the summary, in tokens.
    pub max_summary_tokens: u32,
    /// Minimum number of steps between two compactions.
    pub min_steps_between: u64,
}

impl CompactionPolicy {
    /// Returns the maximum length of a summary: it must not fill the window that it is meant to free.
    #[must_use]
    pub fn summary_tokens(&self) -> u32 {
        let share = self.window.map_or(u64::MAX, |window| window / 8).max(16);
        self.max_summary_tokens.min(u32::try_from(share).unwrap_or(u32::MAX))
    }
}

/// Text that must stay in the context verbatim when the messages that contain it are compacted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinnedText {
    /// Name of the text; a later text with the same name replaces it.
    pub name: String,
    /// Text to keep.
    pub text: String,
}

/// Finds the pinned texts in messages, oldest first. A summary may contain texts from before its compaction.
pub type FindPinned = fn(&[Arc<Message>]) -> Vec<PinnedText>;

/// Texts carried over with a summary, and the names of those that did not fit.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CarriedOver {
    pub(crate) texts: Vec<String>,
    pub(crate) omitted: Vec<String>,
}

/// Chooses what to carry over: each text once, newest first within `room` tokens, and nothing that is still in the
/// context.
pub(crate) fn carry_over(compacted: Vec<PinnedText>, current: &[PinnedText], room: u64) -> CarriedOver {
    let mut seen: HashSet<String> = current.iter().map(|lasting| lasting.name.clone()).collect();
    let (mut carried, mut tokens) = (CarriedOver::default(), 0);
    for PinnedText { name, text } in compacted.into_iter().rev() {
        if !seen.insert(name.clone()) {
            continue;
        }
        let size = text.len() as u64 / 4;
        if tokens + size <= room {
            tokens += size;
            carried.texts.push(text);
        } else {
            carried.omitted.push(name);
        }
    }
    carried.texts.reverse();
    carried.omitted.reverse();
    carried
}

/// Estimates the number of tokens of a message: bytes divided by four, with a flat rate for images.
#[must_use]
pub fn estimate_tokens(message: &Message) -> u64 {
    const IMAGE: u64 = 1600;
    // A file is replaced by a placeholder of about this length.
    const FILE: u64 = 32;
    let text = |text: &str| text.len() as u64 / 4;
    let block = |block: &ContentBlock| match block {
        ContentBlock::Text { text: t } => text(t),
        ContentBlock::Image { .. } => IMAGE,
        ContentBlock::File { .. } => FILE,
        ContentBlock::Video { duration_ms, .. } => duration_ms.saturating_mul(300) / 1000,
    };
    match message {
        Message::System { content, .. } => text(content),
        Message::SystemNotice { body, .. } => text(body),
        Message::User { content, .. } => content.blocks().iter().map(block).sum(),
        Message::ToolResults { results, .. } => {
            results.iter().flat_map(|r| r.content.blocks()).map(block).sum()
        }
        Message::Assistant { blocks, .. } => blocks.iter().map(estimate_block).sum(),
    }
}

fn estimate_block(block: &AssistantBlock) -> u64 {
    let bytes = match block {
        AssistantBlock::Text { text, .. } | AssistantBlock::Reasoning { text, .. } => text.len(),
        AssistantBlock::ToolUse { name, args, .. } => name.len() + args.to_string().len(),
        AssistantBlock::ServerToolContent { content, .. } => content.to_string().len(),
        AssistantBlock::Image(_) => 6400,
    };
    bytes as u64 / 4
}

/// Estimates the number of tokens of a list of messages.
pub(crate) fn estimate(messages: &[Arc<Message>]) -> u64 {
    messages.iter().map(|message| estimate_tokens(message)).sum()
}

/// Finds the sequence number to keep from, so that at most `keep` groups with at most `room` tokens stay.
///
/// At least the last group stays. Returns `None` if there is nothing to compact.
pub(crate) fn cut_point(transcript: &Transcript, keep: usize, room: u64) -> Option<u64> {
    let messages = transcript.messages();
    let mut kept_from = messages.len();
    let (mut groups, mut tokens) = (0, 0);
    for (index, message) in messages.iter().enumerate().rev() {
        tokens += estimate_tokens(message);
        if matches!(**message, Message::ToolResults { .. }) || is_summary(message) {
            continue;
        }
        if groups > 0 && (groups >= keep || tokens > room) {
            break;
        }
        kept_from = index;
        groups += 1;
    }
    let first = transcript.count() - messages.len() as u64;
    (kept_from > 0 && kept_from < messages.len()).then(|| first + kept_from as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lasting(name: &str, size: usize) -> PinnedText {
        PinnedText { name: name.to_owned(), text: name.repeat(size) }
    }

    #[test]
    fn newest_text_is_carried_once_and_overflow_named() {
        let compacted = vec![lasting("a", 400), lasting("b", 40), lasting("c", 40), lasting("b", 80)];
        let carried = carry_over(compacted, &[lasting("c", 40)], 60);
        let expected = CarriedOver { texts: vec!["b".repeat(80)], omitted: vec!["a".to_owned()] };
        assert_eq!(carried, expected);
    }
}
