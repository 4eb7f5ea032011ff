//! A history that every provider accepts, whatever it went through.
//!
//! A session may have been served by other providers, and its messages carry what those want back. Before
//! each request the history is made fit for one provider: foreign signatures go, reasoning that nobody can
//! verify goes, empty blocks go, every call has an id of its own and its result right after it, and nothing
//! else has one. The stored history is never changed.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use meerkat_core::{
    AssistantBlock, Message, Provider, StopReason, Timestamp, ToolFailure, ToolOutput, ToolResult,
};

/// The key under which a block's `meta` names the provider it belongs to.
pub(crate) const META_PROVIDER: &str = "provider";

/// The mark at the end of an answer that an interrupt cut short.
const INTERRUPTED: &str =
    "[This answer was interrupted and is not to be continued unless the user asks for it.]";

/// Makes a history fit for a provider; `tag` is how its own `meta` is marked.
pub(crate) fn normalise(messages: &[Arc<Message>], tag: &str) -> Vec<Message> {
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
            // The results of the tools that made these images have told of them.
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
    distinguish(&mut out);
    out
}

/// Returns an answer that an interrupt cut short, with a mark at its end. The mark stands alone if there is no text:
/// two prompts without an answer between them would be one message.
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

/// Gives every call an id of its own: some servers count anew in every step.
fn distinguish(messages: &mut [Message]) {
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

/// The ids of a history.
#[derive(Default)]
struct Ids {
    /// Those that are taken, each with the highest number that was added to it: a server that calls everything
    /// alike must not have us look through all numbers again for every call.
    used: HashMap<String, u64>,
    /// What the calls of the step are called now.
    step: HashMap<String, String>,
}

impl Ids {
    /// Makes an id one that was not used; says no if the step has had that call.
    fn rename(&mut self, id: &mut String) -> bool {
        if self.step.contains_key(id) {
            return false;
        }
        let base = if id.is_empty() { "call" } else { id.as_str() };
        let mut own = base.to_owned();
        if let Some(mut number) = self.used.get(base).copied() {
            while self.used.contains_key(&own) {
                number += 1;
                own = format!("{base}_{number}");
            }
            self.used.insert(base.to_owned(), number);
        }
        self.used.insert(own.clone(), 1);
        self.step.insert(std::mem::replace(id, own.clone()), own);
        true
    }
}

/// Answers calls that never were.
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
    let mut found: HashMap<&str, &ToolResult> = HashMap::new();
    for result in results {
        found.entry(&result.tool_use_id).or_insert(result);
    }
    let answer = |id: &String| {
        let own = found.get(id.as_str()).copied().cloned();
        own.unwrap_or_else(|| {
            ToolOutput::failure(ToolFailure::Interrupted, "no result was recorded").answering(id.clone())
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

/// Returns the block as the provider may see it: with its own `meta` or none.
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
    let keep = match &block {
        AssistantBlock::Text { text, .. } => !text.trim().is_empty(),
        AssistantBlock::Reasoning { meta, .. } | AssistantBlock::ServerToolContent { meta, .. } => {
            meta.is_some()
        }
        AssistantBlock::ToolUse { .. } | AssistantBlock::Image(_) => true,
    };
    keep.then_some(block)
}

/// Returns the tag by which a provider's own `meta` is known.
pub(crate) const fn tag(provider: Provider) -> &'static str {
    match provider {
        Provider::Anthropic => "anthropic",
        Provider::OpenAi => "open_ai",
        Provider::Gemini => "gemini",
        Provider::SelfHosted => "self_hosted",
        Provider::Other => "other",
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
        let results = ids.iter().map(|id| ToolOutput::text(*id).answering(*id)).collect();
        [
            Arc::new(Message::Assistant { blocks, stop_reason: StopReason::ToolUse, created_at: AT }),
            Arc::new(Message::ToolResults { results, created_at: AT }),
        ]
    }

    #[test]
    fn ids_that_a_server_gives_again_are_told_apart() {
        let steps = [&["call_0", "call_1"][..], &["call_0"], &["call_0", "call_0"], &["", "call_0_2"]];
        let history: Vec<_> = steps.into_iter().flat_map(step).collect();
        let mut found = Vec::new();
        for message in normalise(&history, "anthropic") {
            match message {
                Message::ToolResults { results, .. } => {
                    found.push(results.into_iter().map(|result| result.tool_use_id).collect::<Vec<_>>());
                }
                calls => found.push(calls.tool_calls().into_iter().map(|call| call.id).collect()),
            }
        }
        let expected = [&["call_0", "call_1"][..], &["call_0_2"], &["call_0_3"], &["call", "call_0_2_2"]];
        let expected: Vec<_> = expected.into_iter().flat_map(|ids| [ids.to_vec(), ids.to_vec()]).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn interrupted_answers_separate_prompts() {
        let user = |text: &str| Message::User { content: Content::text(text), created_at: AT };
        let said = |text: &str| AssistantBlock::Text { text: text.to_owned(), meta: None };
        let cancelled = |blocks: Vec<_>| Message::Assistant {
            blocks,
            stop_reason: StopReason::Cancelled,
            created_at: AT,
        };
        let marked = |text: &str| Message::Assistant {
            blocks: vec![said(text)],
            stop_reason: StopReason::EndTurn,
            created_at: AT,
        };
        let [calls, results] = step(&["a"]).map(Arc::unwrap_or_clone);
        let history = [
            user("one"),
            cancelled(vec![said("Once upon a ")]),
            user("two"),
            calls,
            results,
            cancelled(vec![]),
            user("three"),
        ];
        let mut expected = history.clone();
        expected[1] = marked(&format!("Once upon a\n\n{INTERRUPTED}"));
        expected[5] = marked(INTERRUPTED);
        assert_eq!(normalise(&history.map(Arc::new), "anthropic"), expected);
        assert_eq!(normalise(&expected.clone().map(Arc::new), "anthropic"), expected);
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
        let words = |value: &serde_json::Value| {
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
            assert!(list.iter().all(|message| words(message) == 1), "{format:?}: {body}");
        }
    }

    #[test]
    fn a_server_that_calls_everything_alike_costs_no_more_than_others() {
        const CALLS: usize = 20_000;
        let history: Vec<_> = (0..CALLS).flat_map(|_| step(&["call"])).collect();
        let last = normalise(&history, "anthropic").pop().map(|message| match message {
            Message::ToolResults { results, .. } => results[0].tool_use_id.clone(),
            other => panic!("{other:?}"),
        });
        assert_eq!(last, Some(format!("call_{CALLS}")));

        let ids: Vec<_> = (0..CALLS).map(|number| number.to_string()).collect();
        let ids: Vec<_> = ids.iter().map(String::as_str).collect();
        let one = normalise(&step(&ids), "anthropic");
        let Some(Message::ToolResults { results, .. }) = one.last() else { panic!("{}", one.len()) };
        assert_eq!(results.iter().map(|result| result.tool_use_id.as_str()).collect::<Vec<_>>(), ids);
    }
}
