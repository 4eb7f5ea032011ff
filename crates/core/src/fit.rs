//! Making a conversation fit a model that cannot read it all: pure functions over messages, for one request.
//!
//! What is stored stays as it is. First long texts lose their middle, then images become their names, then what
//! only the provider understands is left out, and last the oldest groups are: a call is never parted from its result,
//! and the last group always stays.

use std::sync::Arc;

use serde_json::Value;

use crate::compact::{estimate, estimate_tokens};
use crate::{AssistantBlock, Content, ContentBlock, Message};

/// The shortest a text is cut to, in bytes.
const LEAST: usize = 64;

/// Makes messages fit into so many tokens, as far as can be.
#[must_use]
pub fn fit(messages: Vec<Arc<Message>>, room: u64) -> Vec<Arc<Message>> {
    if estimate(&messages) <= room {
        return messages;
    }
    let longest = messages.iter().map(|message| longest_text(message)).max().unwrap_or(0);
    let mut limit = longest / 2;
    let mut fitted = messages.clone();
    while limit >= LEAST {
        fitted = map(&messages, |message| cut(message, limit));
        if estimate(&fitted) <= room {
            return fitted;
        }
        limit /= 2;
    }
    let fitted = map(&fitted, named);
    if estimate(&fitted) <= room {
        return fitted;
    }
    without_oldest(&map(&fitted, bare), room)
}

fn map(messages: &[Arc<Message>], change: impl Fn(&Message) -> Option<Message>) -> Vec<Arc<Message>> {
    messages.iter().map(|message| change(message).map_or_else(|| Arc::clone(message), Arc::new)).collect()
}

/// Leaves out the oldest groups but the last, until the rest fits.
fn without_oldest(messages: &[Arc<Message>], room: u64) -> Vec<Arc<Message>> {
    let mut tokens: u64 = messages.iter().map(|message| estimate_tokens(message)).sum();
    let begins = |index: usize| !matches!(*messages[index], Message::ToolResults { .. });
    let last = (0..messages.len()).rev().find(|index| begins(*index)).unwrap_or(0);
    let mut first = 0;
    while first < last && (tokens > room || !begins(first)) {
        tokens -= estimate_tokens(&messages[first]);
        first += 1;
    }
    messages[first..].to_vec()
}

fn longest_text(message: &Message) -> usize {
    let block = |block: &ContentBlock| match block {
        ContentBlock::Text { text } => text.len(),
        ContentBlock::Image { .. } | ContentBlock::Video { .. } | ContentBlock::File { .. } => 0,
    };
    let content = |content: &Content| content.blocks().iter().map(block).max().unwrap_or(0);
    match message {
        Message::System { content, .. } => content.len(),
        Message::SystemNotice { body, .. } => body.len(),
        Message::User { content: said, .. } => content(said),
        Message::ToolResults { results, .. } => {
            results.iter().map(|r| content(&r.content)).max().unwrap_or(0)
        }
        Message::Assistant { blocks, .. } => blocks.iter().map(longest_in_block).max().unwrap_or(0),
    }
}

fn longest_in_block(block: &AssistantBlock) -> usize {
    match block {
        AssistantBlock::Text { text, .. } => text.len(),
        AssistantBlock::ToolUse { args, .. } => longest_in_value(args),
        _ => 0,
    }
}

fn longest_in_value(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(longest_in_value).max().unwrap_or(0),
        Value::Object(fields) => fields.values().map(longest_in_value).max().unwrap_or(0),
        _ => 0,
    }
}

/// Takes the middle out of the texts of a message that are longer than `limit`.
fn cut(message: &Message, limit: usize) -> Option<Message> {
    if longest_text(message) <= limit {
        return None;
    }
    let mut message = message.clone();
    let content = |content: &mut Content| {
        let shorter = content.blocks().iter().map(|block| match block {
            ContentBlock::Text { text } => ContentBlock::Text { text: without_middle(text, limit) },
            other => other.clone(),
        });
        *content = Content::from(shorter.collect::<Vec<_>>());
    };
    match &mut message {
        Message::System { content: text, .. } | Message::SystemNotice { body: text, .. } => {
            *text = without_middle(text, limit);
        }
        Message::User { content: said, .. } => content(said),
        Message::ToolResults { results, .. } => results.iter_mut().for_each(|r| content(&mut r.content)),
        Message::Assistant { blocks, .. } => {
            for block in blocks {
                match block {
                    AssistantBlock::Text { text, .. } => *text = without_middle(text, limit),
                    AssistantBlock::ToolUse { args, .. } => cut_value(args, limit),
                    _ => {}
                }
            }
        }
    }
    Some(message)
}

fn cut_value(value: &mut Value, limit: usize) {
    match value {
        Value::String(text) => *text = without_middle(text, limit),
        Value::Array(items) => items.iter_mut().for_each(|item| cut_value(item, limit)),
        Value::Object(fields) => fields.values_mut().for_each(|field| cut_value(field, limit)),
        _ => {}
    }
}

fn without_middle(text: &str, limit: usize) -> String {
    const MARK: &str = " [… left out …] ";
    if text.len() <= limit {
        return text.to_owned();
    }
    let kept = limit.saturating_sub(MARK.len());
    let head = text.floor_char_boundary(kept / 4 * 3);
    let tail = text.ceil_char_boundary(text.len() - kept / 4);
    format!("{}{MARK}{}", &text[..head], &text[tail..])
}

/// Replaces images and clips by their names.
fn named(message: &Message) -> Option<Message> {
    let is_media = |block: &ContentBlock| !matches!(block, ContentBlock::Text { .. });
    let content = |content: &mut Content| {
        let texts = content.blocks().iter().map(|block| ContentBlock::Text { text: block.to_text() });
        *content = Content::from(texts.collect::<Vec<_>>());
    };
    let mut message = message.clone();
    match &mut message {
        Message::User { content: said, .. } if said.blocks().iter().any(is_media) => content(said),
        Message::ToolResults { results, .. } => results.iter_mut().for_each(|r| content(&mut r.content)),
        _ => return None,
    }
    Some(message)
}

/// Leaves out of an answer what only its provider understands, and its images.
fn bare(message: &Message) -> Option<Message> {
    let Message::Assistant { blocks, stop_reason, created_at } = message else { return None };
    let kept = |block: &&AssistantBlock| {
        matches!(block, AssistantBlock::Text { .. } | AssistantBlock::ToolUse { .. })
    };
    let mut left: Vec<_> = blocks.iter().filter(kept).cloned().collect();
    if left.is_empty() {
        left.push(AssistantBlock::Text { text: "[left out]".to_owned(), meta: None });
    }
    Some(Message::Assistant { blocks: left, stop_reason: *stop_reason, created_at: *created_at })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::{BlobId, MediaSource, StopReason, Timestamp, ToolOutput};

    const AT: Timestamp = Timestamp::UNIX_EPOCH;

    fn words(length: usize) -> String {
        "wörd ".repeat(length / 5)
    }

    fn picture() -> ContentBlock {
        let blob_id = BlobId::from_digest(&[7; 32]);
        ContentBlock::Image { media_type: "image/png".to_owned(), source: MediaSource::Blob { blob_id } }
    }

    /// A group: what the user said, or an answer with its calls and their results.
    fn group(kind: u8, lengths: &[usize], index: usize) -> Vec<Arc<Message>> {
        let length = |at: usize| lengths.get(at).copied().unwrap_or(0);
        if kind == 0 {
            let text = ContentBlock::Text { text: words(length(0)) };
            let content = Content::from(vec![text, picture(), picture(), picture()]);
            return vec![Arc::new(Message::User { content, created_at: AT })];
        }
        let id = |call: usize| format!("c{index}_{call}");
        let mut blocks = vec![
            AssistantBlock::Reasoning { text: words(length(1)), meta: Some(json!("signed")) },
            AssistantBlock::Text { text: words(length(2)), meta: None },
        ];
        blocks.extend((1..kind as usize).map(|call| AssistantBlock::ToolUse {
            id: id(call),
            name: "look".to_owned(),
            args: json!({"patch": words(length(call)), "list": [words(length(0))]}),
            meta: None,
        }));
        let result = |call| ToolOutput::text(words(length(call) * 3)).answering(id(call));
        let results: Vec<_> = (1..kind as usize).map(result).collect();
        let mut messages =
            vec![Arc::new(Message::Assistant { blocks, stop_reason: StopReason::EndTurn, created_at: AT })];
        if !results.is_empty() {
            messages.push(Arc::new(Message::ToolResults { results, created_at: AT }));
        }
        messages
    }

    /// Panics unless each call is followed by its result, and each result preceded by its call.
    fn check(messages: &[Arc<Message>]) {
        for (index, message) in messages.iter().enumerate() {
            let asked: Vec<_> = message.tool_calls().into_iter().map(|call| call.id).collect();
            match messages.get(index + 1).map(|next| &**next) {
                Some(Message::ToolResults { results, .. }) => {
                    assert_eq!(results.iter().map(|r| r.tool_use_id.clone()).collect::<Vec<_>>(), asked);
                }
                _ => assert_eq!(asked, [""; 0]),
            }
        }
        assert!(!matches!(messages.first().map(|m| &**m), Some(Message::ToolResults { .. })));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn whatever_the_history_the_next_request_fits_and_every_call_keeps_its_result(
            groups in prop::collection::vec((0u8..6, prop::collection::vec(0usize..30_000, 0..5)), 1..24),
            room in 1_000u64..200_000,
        ) {
            let messages: Vec<_> =
                groups.iter().enumerate().flat_map(|(at, (kind, lengths))| group(*kind, lengths, at)).collect();
            check(&messages);
            let fitted = fit(messages.clone(), room);
            prop_assert!(estimate(&fitted) <= room, "{} > {room}", estimate(&fitted));
            check(&fitted);
            prop_assert!(!fitted.is_empty());
            if estimate(&messages) <= room {
                prop_assert_eq!(fitted, messages, "what fits is left alone");
            }
        }
    }
}
