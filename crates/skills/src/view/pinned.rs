//! Finds the skills whose full text is in a conversation: added to a prompt, read with a tool, or carried over by a
//! compaction.

use std::collections::HashSet;
use std::sync::Arc;

use meerkat_core::{Compaction, ContentBlock, Message, PinnedText, ToolResult};
use serde::Deserialize;

use super::inventory::{CLOSING, element};
use super::xml::escaped_attribute;

/// Name of the tool that reads a skill.
pub(crate) const LOAD_SKILL: &str = "load_skill";
/// Start of a skill element.
const OPENING: &str = "<skill id=\"";

/// Returns the skills in messages, oldest first.
#[must_use]
pub fn pinned_skills(messages: &[Arc<Message>]) -> Vec<PinnedText> {
    let mut found = Vec::new();
    let mut loads = HashSet::new();
    for message in messages {
        match &**message {
            Message::User { content, .. } => found.extend(content.blocks().iter().filter_map(prompt_skill)),
            Message::SystemNotice { body, .. } if body.starts_with(Compaction::MARK) => {
                collect_carried(body, &mut found)
            }
            Message::Assistant { .. } => {
                let calls = message.tool_calls().into_iter().filter(|call| call.name == LOAD_SKILL);
                loads.extend(calls.map(|call| call.id));
            }
            Message::ToolResults { results, .. } => {
                let read = results.iter().filter(|result| loads.contains(&result.tool_use_id));
                found.extend(read.filter_map(loaded_skill));
            }
            _ => {}
        }
    }
    found
}

/// Returns the skill in a block. A skill that was added to a prompt is a separate block.
fn prompt_skill(block: &ContentBlock) -> Option<PinnedText> {
    let ContentBlock::Text { text } = block else { return None };
    let name = name(text).filter(|_| text.ends_with(CLOSING))?;
    Some(PinnedText { name: name.to_owned(), text: text.clone() })
}

fn name(text: &str) -> Option<&str> {
    text.strip_prefix(OPENING)?.split_once('"').map(|(name, _)| name)
}

/// Collects the skills in a summary. Each starts at the beginning of a line, and its text cannot contain the closing
/// tag.
fn collect_carried(body: &str, found: &mut Vec<PinnedText>) {
    let mut rest = body;
    while let Some(start) = rest.find("\n<skill id=\"") {
        let text = &rest[start + 1..];
        let Some(end) = text.find(CLOSING) else { return };
        let (text, after) = text.split_at(end + CLOSING.len());
        found.extend(name(text).map(|name| PinnedText { name: name.to_owned(), text: text.to_owned() }));
        rest = after;
    }
}

/// Result of `load_skill`.
#[derive(Deserialize)]
struct Loaded {
    source_uuid: String,
    skill_name: String,
    body: String,
    trusted: Option<bool>,
}

fn loaded_skill(result: &ToolResult) -> Option<PinnedText> {
    let [ContentBlock::Text { text }] = result.content.blocks() else { return None };
    let answer: Loaded = serde_json::from_str(text).ok().filter(|_| !result.is_error)?;
    let id = format!("{}/{}", answer.source_uuid, answer.skill_name);
    let mark = if answer.trusted == Some(false) { super::inventory::UNTRUSTED } else { "" };
    let head = format!("skill id=\"{}\"{mark}", escaped_attribute(&id));
    Some(PinnedText { name: id, text: element(&head, &answer.body) })
}
