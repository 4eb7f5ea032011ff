//! When a history is too long, and where it may be cut: pure functions over messages.
//!
//! The unit is the group: a message together with the tool results that answer it. A cut falls between two
//! groups, so a call is never parted from its result.

use std::collections::HashSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::transcript::is_summary;
use crate::{AssistantBlock, ContentBlock, Message, Transcript};

/// When to compact and how much to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactionPolicy {
    /// Compact when the history has this many tokens.
    pub threshold: u64,
    /// What the model can read at all, where known.
    pub window: Option<u64>,
    /// How many groups stay as they are.
    pub keep_groups: usize,
    /// How long the summary may be, in tokens.
    pub max_summary_tokens: u32,
    /// How many steps must lie between two compactions.
    pub min_steps_between: u64,
}

/// A compaction that was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compaction {
    /// The first message that the model still reads itself.
    pub kept_from: u64,
    /// The message that stands for those before.
    pub summary_at: u64,
    /// The session's step count when it was made.
    pub at_step: u64,
}

impl CompactionPolicy {
    /// Returns how long a summary may be: it must not fill what it is to make room in.
    #[must_use]
    pub fn summary_tokens(&self) -> u32 {
        let share = self.window.map_or(u64::MAX, |window| window / 8).max(16);
        self.max_summary_tokens.min(u32::try_from(share).unwrap_or(u32::MAX))
    }
}

impl Compaction {
    /// How the text of every summary begins.
    pub const MARK: &'static str = "[Context compacted]";
}

/// Something that the model must go on reading word for word when the messages it stood in are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lasting {
    /// What it is called; a later one of the same name takes its place.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// Finds what lasts in messages, the oldest first. A summary may hold what was found before it was made.
pub type FindLasting = fn(&[Arc<Message>]) -> Vec<Lasting>;

/// What goes with a summary, and the names of what there is no room for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Carried {
    pub(crate) texts: Vec<String>,
    pub(crate) left_out: Vec<String>,
}

/// Chooses what to carry over: each thing once, the newest first in line for `room` tokens, and nothing of what is
/// still read where it stands.
pub(crate) fn carry(gone: Vec<Lasting>, still: &[Lasting], room: u64) -> Carried {
    let mut seen: HashSet<String> = still.iter().map(|lasting| lasting.name.clone()).collect();
    let (mut carried, mut tokens) = (Carried::default(), 0);
    for Lasting { name, text } in gone.into_iter().rev() {
        if !seen.insert(name.clone()) {
            continue;
        }
        let size = text.len() as u64 / 4;
        if tokens + size <= room {
            tokens += size;
            carried.texts.push(text);
        } else {
            carried.left_out.push(name);
        }
    }
    carried.texts.reverse();
    carried.left_out.reverse();
    carried
}

/// Guesses how many tokens a message is: bytes by four, images flat.
#[must_use]
pub fn estimate_tokens(message: &Message) -> u64 {
    const IMAGE: u64 = 1600;
    // What a model is told in its place.
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

/// Guesses how many tokens a list of messages is.
pub(crate) fn estimate(messages: &[Arc<Message>]) -> u64 {
    messages.iter().map(|message| estimate_tokens(message)).sum()
}

/// Finds the sequence number to keep from, so that at most `keep` groups of at most `room` tokens stay.
///
/// At least the last group stays. `None` when there is nothing to leave out.
pub(crate) fn cut(transcript: &Transcript, keep: usize, room: u64) -> Option<u64> {
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

    fn lasting(name: &str, size: usize) -> Lasting {
        Lasting { name: name.to_owned(), text: name.repeat(size) }
    }

    #[test]
    fn the_newest_is_carried_over_once_and_what_does_not_fit_is_named() {
        let gone = vec![lasting("a", 400), lasting("b", 40), lasting("c", 40), lasting("b", 80)];
        let carried = carry(gone, &[lasting("c", 40)], 60);
        let expected = Carried { texts: vec!["b".repeat(80)], left_out: vec!["a".to_owned()] };
        assert_eq!(carried, expected);
    }
}
