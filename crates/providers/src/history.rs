//! Conversion of a history into one that a provider accepts.
//!
//! A session may have been served by other providers, whose messages carry provider-specific data. Before each
//! request the history is converted for one provider: foreign signatures, reasoning that cannot be verified, and
//! empty blocks are removed; every call gets a unique id and its result right after it; results without a call are
//! removed. The stored history is never changed.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use meerkat_core::{
    AssistantBlock, Message, Provider, StopReason, Timestamp, ToolFailure, ToolOutput, ToolResult,
};

/// Key in a block's `meta` for the provider it belongs to.
pub(crate) const META_PROVIDER: &str = "provider";

/// Mark at the end of an answer that was interrupted.
const INTERRUPTED: &str =
    "[This answer was interrupted and is not to be continued unless the user asks for it.]";

/// Converts a history for a provider; `tag` marks the provider's own `meta`.
pub(crate) fn normalize(messages: &[Arc<Message>], tag: &str) -> Vec<Message> {
    let mut out: Vec<Message> = Vec::with_capacity(messages.len());
    let mut open: Vec<String> = Vec::new();
    for message in messages {
        match &**message {
            Message::ToolResults { results, created_at } => {
                let results = answers(&open, results);
                open.clear();
                if !results.is_empty() {
                    out.push(Message::ToolResults { results, created_at: *created_at });
                }
            }
            Message::Assistant { blocks, stop_reason: StopReason::Cancelled, created_at } => {
                close(&mut out, &mut open);
                out.push(interrupted(blocks, *created_at));
            }
            // The results of the tools that created these images have already described them.
            Message::Assistant { blocks, .. } if follows_results(&out) && blocks.iter().all(is_image) => {}
            Message::Assistant { blocks, stop_reason, created_at } => {
                close(&mut out, &mut open);
                let blocks: Vec<_> = blocks.iter().filter_map(|block| own(block, tag)).collect();
                if blocks.is_empty() {
                    continue;
                }
                let message =
                    Message::Assistant { blocks, stop_reason: *stop_reason, created_at: *created_at };
                open = message.tool_calls().into_iter().map(|call| call.id).collect();
                out.push(message);
            }
            other => {
                close(&mut out, &mut open);
                if !is_blank(other) {
                    out.push(other.clone());
                }
            }
        }
    }
    close(&mut out, &mut open);
    make_ids_unique(&mut out);
    out
}

/// Returns an interrupted answer with a mark at its end. The mark stands alone if there is no text: without an
/// answer between them, two prompts would be merged into one message.
fn interrupted(blocks: &[AssistantBlock], created_at: Timestamp) -> Message {
    let text = |block: &AssistantBlock| match block {
        AssistantBlock::Text { text, .. } if !text.trim().is_empty() => Some(text.trim_end().to_owned()),
        _ => None,
    };
    let texts: Vec<_> = blocks.iter().filter_map(text).chain([INTERRUPTED.to_owned()]).collect();
    let blocks = vec![AssistantBlock::Text { text: texts.join("\n\n"), meta: None }];
    Message::Assistant { blocks, stop_reason: StopReason::EndTurn, created_at }
}

fn follows_results(out: &[Message]) -> bool {
    matches!(out.last(), Some(Message::ToolResults { .. }))
}

const fn is_image(block: &AssistantBlock) -> bool {
    matches!(block, AssistantBlock::Image(_))
}

/// Gives every call a unique id: some servers restart their numbering in every step.
fn make_ids_unique(messages: &mut [Message]) {
    let mut ids = Ids::default();
    for message in messages {
        match message {
            Message::Assistant { blocks, .. } => {
                ids.step.clear();
                blocks.retain_mut(|block| match block {
                    AssistantBlock::ToolUse { id, .. } => ids.rename(id),
                    _ => true,
                });
            }
            Message::ToolResults { results, .. } => {
                for result in results {
                    if let Some(id) = ids.step.get(&result.tool_use_id) {
                        result.tool_use_id.clone_from(id);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Call ids of a history.
#[derive(Default)]
struct Ids {
    /// Ids in use, each with the highest number appended to it so far: if a server gives every call the same id,
    /// the search must not start from 1 for every call.
    used: HashMap<String, u64>,
    /// Current ids of the step's calls, by original id.
    step: HashMap<String, String>,
}

impl Ids {
    /// Renames an id to a unique one; returns `false` if the step already has that call.
    fn rename(&mut self, id: &mut String) -> bool {
        if self.step.contains_key(id) {
            return false;
        }
        let base = if id.is_empty() { "call" } else { id.as_str() };
        let mut unique = base.to_owned();
        if let Some(mut number) = self.used.get(base).copied() {
            while self.used.contains_key(&unique) {
                number += 1;
                unique = format!("{base}_{number}");
            }
            self.used.insert(base.to_owned(), number);
        }
        self.used.insert(unique.clone(), 1);
        self.step.insert(std::mem::replace(id, unique.clone()), unique);
        true
    }
}

/// Adds results for calls that have none.
fn close(out: &mut Vec<Message>, open: &mut Vec<String>) {
    if open.is_empty() {
        return;
    }
    let results = answers(open, &[]);
    open.clear();
    if let Some(Message::Assistant { created_at, .. }) = out.last() {
        let created_at = *created_at;
        out.push(Message::ToolResults { results, created_at });
    }
}

/// Returns one result for each call, in call order.
fn answers(open: &[String], results: &[ToolResult]) -> Vec<ToolResult> {
    let mut seen = BTreeSet::new();
    let mut by_id: HashMap<&str, &ToolResult> = HashMap::new();
    for result in results {
        by_id.entry(&result.tool_use_id).or_insert(result);
    }
    let answer = |id: &String| {
        let own = by_id.get(id.as_str()).copied().cloned();
        own.unwrap_or_else(|| {
            ToolOutput::failure(ToolFailure::Interrupted, "no result was recorded").into_result(id.clone())
        })
    };
    open.iter().filter(|id| seen.insert(id.as_str())).map(answer).collect()
}

fn is_blank(message: &Message) -> bool {
    match message {
        Message::User { content, .. } => content.is_blank(),
        Message::System { content, .. } => content.trim().is_empty(),
        Message::SystemNotice { body, .. } => body.trim().is_empty(),
        Message::Assistant { .. } | Message::ToolResults { .. } => false,
    }
}

/// Returns the block for a request, without foreign `meta`; `None` if the provider must not see it.
fn own(block: &AssistantBlock, tag: &str) -> Option<AssistantBlock> {
    let is_ours = |meta: &serde_json::Value| {
        meta.get(META_PROVIDER).and_then(|p| p.as_str()).is_some_and(|p| p.starts_with(tag))
    };
    let mut block = block.clone();
    let meta = match &mut block {
        AssistantBlock::Text { meta, .. }
        | AssistantBlock::Reasoning { meta, .. }
        | AssistantBlock::ToolUse { meta, .. }
        | AssistantBlock::ServerToolContent { meta, .. } => meta,
        AssistantBlock::Image(image) => &mut image.meta,
    };
    if !meta.as_ref().is_some_and(is_ours) {
        *meta = None;
    }
    let is_kept = match &block {
        AssistantBlock::Text { text, .. } => !text.trim().is_empty(),
        AssistantBlock::Reasoning { meta, .. } | AssistantBlock::ServerToolContent { meta, .. } => {
            meta.is_some()
        }
        AssistantBlock::ToolUse { .. } | AssistantBlock::Image(_) => true,
    };
    is_kept.then_some(block)
}

/// Returns the tag that marks a provider's own `meta`.
pub(crate) const fn tag(provider: Provider) -> &'static str {
    match provider {
        Provider::OpenAi => "open_ai",
        other => other.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use meerkat_core::Content;
    use serde_json::json;

    use super::*;

    const AT: Timestamp = Timestamp::UNIX_EPOCH;

    fn step(ids: &[&str]) -> [Arc<Message>; 2] {
        let call = |id: &&str| AssistantBlock::ToolUse {
            id: (*id).to_owned(),
            name: "read".to_owned(),
            args: json!({}),
            meta: None,
        };
        let blocks = ids.iter().map(call).collect();
        let results = ids.iter().map(|id| ToolOutput::text(*id).into_result(*id)).collect();
        [
            Arc::new(Message::Assistant { blocks, stop_reason: StopReason::ToolUse, created_at: AT }),
            Arc::new(Message::ToolResults { results, created_at: AT }),
        ]
    }

    #[test]
    fn reused_call_ids_are_made_unique() {
        let steps = [&["call_0", "call_1"][..], &["call_0"], &["call_0", "call_0"], &["", "call_0_2"]];
        let history: Vec<_> = steps.into_iter().flat_map(step).collect();
        let mut actual = Vec::new();
        for message in normalize(&history, "anthropic") {
            match message {
                Message::ToolResults { results, .. } => {
                    actual.push(results.into_iter().map(|result| result.tool_use_id).collect::<Vec<_>>());
                }
                calls => actual.push(calls.tool_calls().into_iter().map(|call| call.id).collect()),
            }
        }
        let expected = [&["call_0", "call_1"][..], &["call_0_2"], &["call_0_3"], &["call", "call_0_2_2"]];
        let expected: Vec<_> = expected.into_iter().flat_map(|ids| [ids.to_vec(), ids.to_vec()]).collect();
        assert_eq!(actual, expected);
    }

    #[test]
    fn interrupted_answers_separate_prompts() {
        let user = |text: &str| Message::User { content: Content::text(text), created_at: AT };
        let text_block = |text: &str| AssistantBlock::Text { text: text.to_owned(), meta: None };
        let cancelled = |blocks: Vec<_>| Message::Assistant {
            blocks,
            stop_reason: StopReason::Cancelled,
            created_at: AT,
        };
        let marked = |text: &str| Message::Assistant {
            blocks: vec![text_block(text)],
            stop_reason: StopReason::EndTurn,
            created_at: AT,
        };
        let [calls, results] = step(&["a"]).map(Arc::unwrap_or_clone);
        let history = [
            user("one"),
            cancelled(vec![text_block("Once upon a ")]),
            user("two"),
            calls,
            results,
            cancelled(vec![]),
            user("three"),
        ];
        let mut expected = history.clone();
        expected[1] = marked(&format!("Once upon a\n\n{INTERRUPTED}"));
        expected[5] = marked(INTERRUPTED);
        assert_eq!(normalize(&history.map(Arc::new), "anthropic"), expected);
        assert_eq!(normalize(&expected.clone().map(Arc::new), "anthropic"), expected);
    }

    #[cfg(feature = "fuzzing")]
    #[test]
    fn every_format_keeps_interrupted_prompts_apart() {
        use crate::fuzzing::Format;

        let user = |text: &str| Message::User { content: Content::text(text), created_at: AT };
        let cancelled =
            Message::Assistant { blocks: Vec::new(), stop_reason: StopReason::Cancelled, created_at: AT };
        let messages = [user("one"), cancelled, user("two")].map(Arc::new).to_vec();
        let request = meerkat_core::ModelRequest {
            system: String::new(),
            messages,
            tools: Arc::default(),
            max_tokens: 100,
            temperature: None,
            output_schema: None,
            provider_params: None,
        };
        let marks = |value: &serde_json::Value| {
            ["one", "two", INTERRUPTED].into_iter().filter(|text| value.to_string().contains(text)).count()
        };
        for format in Format::ALL {
            let body = format.body(&request);
            let list =
                ["messages", "input", "contents"].into_iter().find_map(|key| body.get(key)?.as_array());
            let list = list.expect("the body has messages");
            let roles: Vec<_> = list.iter().filter_map(|message| message["role"].as_str()).collect();
            let answer = if format == Format::Gemini { "model" } else { "assistant" };
            assert_eq!(roles, ["user", answer, "user"], "{format:?}: {body}");
            assert!(list.iter().all(|message| marks(message) == 1), "{format:?}: {body}");
        }
    }

    #[test]
    fn many_identical_ids_are_renamed_quickly() {
        const CALLS: usize = 20_000;
        let history: Vec<_> = (0..CALLS).flat_map(|_| step(&["call"])).collect();
        let last = normalize(&history, "anthropic").pop().map(|message| match message {
            Message::ToolResults { results, .. } => results[0].tool_use_id.clone(),
            other => panic!("{other:?}"),
        });
        assert_eq!(last, Some(format!("call_{CALLS}")));

        let ids: Vec<_> = (0..CALLS).map(|number| number.to_string()).collect();
        let ids: Vec<_> = ids.iter().map(String::as_str).collect();
        let one = normalize(&step(&ids), "anthropic");
        let Some(Message::ToolResults { results, .. }) = one.last() else { panic!("{}", one.len()) };
        assert_eq!(results.iter().map(|result| result.tool_use_id.as_str()).collect::<Vec<_>>(), ids);
    }
}
