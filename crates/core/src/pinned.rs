//! What stays whole when a conversation is shortened: the skills that the model was given.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use crate::{ContentBlock, Message};

/// How a skill begins and ends where it is written out.
const BEGIN: &str = "<skill id=\"";
const END: &str = "</skill>";

/// Finds the skills among messages, the latest first, of `room` bytes together at most.
pub(crate) fn skills_in(messages: &[Arc<Message>], room: usize) -> Vec<String> {
    let (mut seen, mut left) = (BTreeSet::new(), room);
    let mut found = Vec::new();
    for skill in messages.iter().rev().flat_map(|message| of_message(message)) {
        let id = skill[BEGIN.len()..].split('"').next().unwrap_or_default().to_owned();
        if skill.len() <= left && seen.insert(id) {
            left -= skill.len();
            found.push(skill);
        }
    }
    found
}

fn of_message(message: &Message) -> Vec<String> {
    let text = |block: &ContentBlock| match block {
        ContentBlock::Text { text } => written_out(text),
        ContentBlock::Image { .. } | ContentBlock::Video { .. } => Vec::new(),
    };
    match message {
        Message::User { content, .. } => content.blocks().iter().flat_map(text).collect(),
        Message::SystemNotice { body, .. } => written_out(body),
        Message::ToolResults { results, .. } => {
            let right = results.iter().filter(|result| !result.is_error);
            right.filter_map(|result| loaded(&result.content.to_text())).collect()
        }
        Message::System { .. } | Message::Assistant { .. } => Vec::new(),
    }
}

fn written_out(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(BEGIN) {
        let Some(length) = rest[at..].find(END) else { break };
        let end = at + length + END.len();
        found.push(rest[at..end].to_owned());
        rest = &rest[end..];
    }
    found
}

/// Reads what a tool gave that loads a skill.
fn loaded(text: &str) -> Option<String> {
    if !text.contains("\"skill_name\"") {
        return None;
    }
    let value: Value = serde_json::from_str(text).ok()?;
    let field = |name: &str| value.get(name).and_then(Value::as_str);
    let (source, name, body) = (field("source_uuid")?, field("skill_name")?, field("body")?);
    let body = body.replace(END, "&lt;/skill&gt;");
    Some(format!("{BEGIN}{source}/{name}\">\n{body}\n{END}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Content, NoticeKind, Timestamp, ToolOutput};

    #[test]
    fn the_latest_form_of_each_skill_stays() {
        let at = Timestamp::UNIX_EPOCH;
        let user = |text: &str| Arc::new(Message::User { content: Content::text(text), created_at: at });
        let skill = |id: &str, body: &str| format!("<skill id=\"u/{id}\">\n{body}\n</skill>");
        let load = r#"{"source_uuid":"u","skill_name":"c","name":"c","body":"cc","byte_size":2}"#;
        let result = ToolOutput::text(load).answering("x");
        let summary = format!("[Context compacted] so\n\n{}", skill("a", "old"));
        let kind = NoticeKind::Generic;
        let messages = [
            Arc::new(Message::SystemNotice { kind, body: summary, created_at: at }),
            user(&format!("{}{} do it", skill("a", "new"), skill("b", "bb"))),
            user("no skill here, <skill id=\"cut"),
            Arc::new(Message::ToolResults { results: vec![result], created_at: at }),
        ];
        let all = [skill("c", "cc"), skill("a", "new"), skill("b", "bb")];
        assert_eq!(skills_in(&messages, 1000), all);
        assert_eq!(skills_in(&messages, 40), all[..1], "as far as there is room");
    }
}
