//! Fitting a conversation into a model's context window: pure functions over messages, for one request.
//!
//! Stored messages are not changed. First, long texts lose their middle; then media is replaced by placeholders; then
//! blocks that only the provider understands are omitted; and last, the oldest groups are. A call is never separated
//! from its result, and the last group is always kept.

use std::sync::Arc;

use serde_json::Value;

use crate::compact::{estimate, estimate_tokens};
use crate::{AssistantBlock, Content, ContentBlock, Message};

/// Minimum length to which a text is truncated, in bytes.
const MIN_TEXT_BYTES: usize = 64;

/// Shrinks messages to at most `room` tokens, if possible.
#[must_use]
pub fn fit_to_window(messages: Vec<Arc<Message>>, room: u64) -> Vec<Arc<Message>> {
    if estimate(&messages) <= room {
        return messages;
    }
    let longest = messages.iter().map(|message| longest_text(message)).max().unwrap_or(0);
    let mut limit = longest / 2;
    let mut fitted = messages.clone();
    while limit >= MIN_TEXT_BYTES {
        fitted = map(&messages, |message| cut(message, limit));
        if estimate(&fitted) <= room {
            return fitted;
        }
        limit /= 2;
    }
    let fitted = map(&fitted, replace_media);
    if estimate(&fitted) <= room {
        return fitted;
    }
    without_oldest(&map(&fitted, strip_provider_data), room)
}

fn map(messages: &[Arc<Message>], change: impl Fn(&Message) -> Option<Message>) -> Vec<Arc<Message>> {
    messages.iter().map(|message| change(message).map_or_else(|| Arc::clone(message), Arc::new)).collect()
}

/// Drops the oldest groups, but never the last one, until the rest fits.
fn without_oldest(messages: &[Arc<Message>], room: u64) -> Vec<Arc<Message>> {
    let mut tokens: u64 = messages.iter().map(|message| estimate_tokens(message)).sum();
    let starts_group = |index: usize| !matches!(*messages[index], Message::ToolResults { .. });
    let last = (0..messages.len()).rev().find(|index| starts_group(*index)).unwrap_or(0);
    let mut first = 0;
    while first < last && (tokens > room || !starts_group(first)) {
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
        Message::User { content: input, .. } => content(input),
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

/// Removes the middle of texts in a message that are longer than `limit`.
fn cut(message: &Message, limit: usize) -> Option<Message> {
    if longest_text(message) <= limit {
        return None;
    }
    let mut message = message.clone();
    let content = |content: &mut Content| content.change_texts(|text| *text = truncate_middle(text, limit));
    match &mut message {
        Message::System { content: text, .. } | Message::SystemNotice { body: text, .. } => {
            *text = truncate_middle(text, limit);
        }
        Message::User { content: input, .. } => content(input),
        Message::ToolResults { results, .. } => results.iter_mut().for_each(|r| content(&mut r.content)),
        Message::Assistant { blocks, .. } => {
            for block in blocks {
                match block {
                    AssistantBlock::Text { text, .. } => *text = truncate_middle(text, limit),
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
        Value::String(text) => *text = truncate_middle(text, limit),
        Value::Array(items) => items.iter_mut().for_each(|item| cut_value(item, limit)),
        Value::Object(fields) => fields.values_mut().for_each(|field| cut_value(field, limit)),
        _ => {}
    }
}

fn truncate_middle(text: &str, limit: usize) -> String {
    const MARK: &str = " [… omitted …] ";
    if text.len() <= limit {
        return text.to_owned();
    }
    let budget = limit.saturating_sub(MARK.len());
    let head = text.floor_char_boundary(budget / 4 * 3);
    let tail = text.ceil_char_boundary(text.len() - budget / 4);
    format!("{}{MARK}{}", &text[..head], &text[tail..])
}

/// Replaces images, videos, and files by placeholders.
fn replace_media(message: &Message) -> Option<Message> {
    let is_media = |block: &ContentBlock| !matches!(block, ContentBlock::Text { .. });
    let content = |content: &mut Content| {
        let texts = content.blocks().iter().map(|block| ContentBlock::Text { text: block.to_text() });
        *content = Content::from(texts.collect::<Vec<_>>());
    };
    let mut message = message.clone();
    match &mut message {
        Message::User { content: input, .. } if input.blocks().iter().any(is_media) => content(input),
        Message::ToolResults { results, .. } => results.iter_mut().for_each(|r| content(&mut r.content)),
        _ => return None,
    }
    Some(message)
}

/// Removes provider-specific blocks and images from a response.
fn strip_provider_data(message: &Message) -> Option<Message> {
    let Message::Assistant { blocks, stop_reason, created_at } = message else { return None };
    let is_portable = |block: &&AssistantBlock| {
        matches!(block, AssistantBlock::Text { .. } | AssistantBlock::ToolUse { .. })
    };
    let mut remaining: Vec<_> = blocks.iter().filter(is_portable).cloned().collect();
    if remaining.is_empty() {
        remaining.push(AssistantBlock::Text { text: "[omitted]".to_owned(), meta: None });
    }
    Some(Message::Assistant { blocks: remaining, stop_reason: *stop_reason, created_at: *created_at })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::{BlobId, MediaSource, StopReason, Timestamp, ToolOutput};

    const AT: Timestamp = Timestamp::UNIX_EPOCH;

    fn sample_text(length: usize) -> String {
        "wörd ".repeat(length / 5)
    }

    fn image() -> ContentBlock {
        let blob_id = BlobId::from_digest(&[7; 32]);
        ContentBlock::Image { media_type: "image/png".to_owned(), source: MediaSource::Blob { blob_id } }
    }

    /// Builds a group: a user message, or a response with calls and their results.
    fn group(kind: u8, lengths: &[usize], index: usize) -> Vec<Arc<Message>> {
        let length = |at: usize| lengths.get(at).copied().unwrap_or(0);
        if kind == 0 {
            let text = ContentBlock::Text { text: sample_text(length(0)) };
            let content = Content::from(vec![text, image(), image(), image()]);
            return vec![Arc::new(Message::User { content, created_at: AT })];
        }
        let id = |call: usize| format!("c{index}_{call}");
        let mut blocks = vec![
            AssistantBlock::Reasoning { text: sample_text(length(1)), meta: Some(json!("signed")) },
            AssistantBlock::Text { text: sample_text(length(2)), meta: None },
        ];
        blocks.extend((1..kind as usize).map(|call| AssistantBlock::ToolUse {
            id: id(call),
            name: "look".to_owned(),
            args: json!({"patch": sample_text(length(call)), "list": [sample_text(length(0))]}),
            meta: None,
        }));
        let result = |call| ToolOutput::text(sample_text(length(call) * 3)).into_result(id(call));
        let results: Vec<_> = (1..kind as usize).map(result).collect();
        let mut messages =
            vec![Arc::new(Message::Assistant { blocks, stop_reason: StopReason::EndTurn, created_at: AT })];
        if !results.is_empty() {
            messages.push(Arc::new(Message::ToolResults { results, created_at: AT }));
        }
        messages
    }

    /// Panics unless each call is followed by its result and each result is preceded by its call.
    fn check(messages: &[Arc<Message>]) {
        for (index, message) in messages.iter().enumerate() {
            let calls: Vec<_> = message.tool_calls().into_iter().map(|call| call.id).collect();
            match messages.get(index + 1).map(|next| &**next) {
                Some(Message::ToolResults { results, .. }) => {
                    assert_eq!(results.iter().map(|r| r.tool_use_id.clone()).collect::<Vec<_>>(), calls);
                }
                _ => assert_eq!(calls, [""; 0]),
            }
        }
        assert!(!matches!(messages.first().map(|m| &**m), Some(Message::ToolResults { .. })));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn fitted_history_keeps_calls_with_results(
            groups in prop::collection::vec((0u8..6, prop::collection::vec(0usize..30_000, 0..5)), 1..24),
            room in 1_000u64..200_000,
        ) {
            let messages: Vec<_> =
                groups.iter().enumerate().flat_map(|(at, (kind, lengths))| group(*kind, lengths, at)).collect();
            check(&messages);
            let fitted = fit_to_window(messages.clone(), room);
            prop_assert!(estimate(&fitted) <= room, "{} > {room}", estimate(&fitted));
            check(&fitted);
            prop_assert!(!fitted.is_empty());
            if estimate(&messages) <= room {
                prop_assert_eq!(fitted, messages, "messages that fit are unchanged");
            }
        }
    }
}
