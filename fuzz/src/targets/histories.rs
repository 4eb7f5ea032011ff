//! Message histories. An input is a list of messages in stored form.

use std::collections::BTreeSet;
use std::sync::Arc;

use meerkat_core::{AssistantBlock, Message};
use meerkat_providers::fuzzing::Format;

use super::{kind_of, streams, texts};
use crate::engine::{Target, Verdict};
use crate::mutate::Style;
use crate::random::Random;

pub(super) const TARGET: Target = Target { name: "histories", style: Style::Json, corpus, run };

fn corpus() -> Vec<Vec<u8>> {
    texts(&[
        r#"[{"role":"system","content":"s","created_at":"2026-01-01T00:00:00Z"},{"role":"user","content":"hello","created_at":"2026-01-01T00:00:00Z"},{"role":"block_assistant","blocks":[{"block_type":"reasoning","data":{"text":"hm","meta":{"provider":"anthropic","signature":"c2ln"}}},{"block_type":"text","data":{"text":"hi","meta":null}}],"stop_reason":"end_turn","created_at":"2026-01-01T00:00:00Z"}]"#,
        r#"[{"role":"user","content":[{"type":"text","text":"look"},{"type":"image","media_type":"image/png","source":"inline","data":"eHg="}],"created_at":"2026-01-01T00:00:00Z"},{"role":"block_assistant","blocks":[{"block_type":"tool_use","data":{"id":"a","name":"look","args":{"x":1},"meta":{"provider":"gemini","thoughtSignature":"c2ln"}}},{"block_type":"tool_use","data":{"id":"b","name":"look","args":{}}}],"stop_reason":"tool_use","created_at":"2026-01-01T00:00:00Z"},{"role":"tool_results","results":[{"tool_use_id":"b","content":"done","is_error":false},{"tool_use_id":"c","content":[{"type":"image","media_type":"image/png","source":"inline","data":"eHg="}],"is_error":true}],"created_at":"2026-01-01T00:00:00Z"},{"role":"system_notice","kind":"generic","body":"n","created_at":"2026-01-01T00:00:00Z"}]"#,
        r#"[{"role":"user","content":"","created_at":"2026-01-01T00:00:00Z"},{"role":"block_assistant","blocks":[{"block_type":"server_tool_content","data":{"id":"s","name":"web_search","content":{"type":"web_search_call","id":"s"},"meta":{"provider":"open_ai","id":"s"}}},{"block_type":"reasoning","data":{"text":"r","meta":{"provider":"open_ai","id":"rs","encrypted_content":"eHg=","summary":[{"type":"summary_text","text":"r"}]}}},{"block_type":"text","data":{"text":" "}}],"stop_reason":"max_tokens","created_at":"2026-01-01T00:00:00Z"},{"role":"tool_results","results":[],"created_at":"2026-01-01T00:00:00Z"}]"#,
        r#"[{"role":"user","content":"one","created_at":"2026-01-01T00:00:00Z"},{"role":"block_assistant","blocks":[{"block_type":"text","data":{"text":"Once upon a"}}],"stop_reason":"cancelled","created_at":"2026-01-01T00:00:00Z"},{"role":"user","content":"two","created_at":"2026-01-01T00:00:00Z"},{"role":"block_assistant","blocks":[],"stop_reason":"cancelled","created_at":"2026-01-01T00:00:00Z"}]"#,
        "[]",
    ])
}

fn run(input: &[u8], _: &mut Random) -> Verdict {
    let messages: Vec<Message> = match serde_json::from_slice(input) {
        Ok(messages) => messages,
        Err(error) => return Ok(kind_of(&error.to_string())),
    };
    let messages: Vec<_> = messages.into_iter().map(Arc::new).collect();
    let mut outcome = String::new();
    for format in Format::ALL {
        let fit = format.history(&messages);
        check(&fit).map_err(|what| format!("{format:?}: {what}: {fit:?}"))?;
        outcome.push_str(&shape(&fit));
        let again: Vec<_> = fit.iter().cloned().map(Arc::new).collect();
        if format.history(&again) != fit {
            return Err(format!("{format:?}: fitting the history twice changes it: {fit:?}"));
        }
    }
    streams::bodies(messages)?;
    Ok(outcome)
}

/// Checks that every call has its result right after it, and that there are no other results.
fn check(messages: &[Message]) -> Result<(), &'static str> {
    let mut open: Vec<String> = Vec::new();
    for message in messages {
        if let Message::ToolResults { results, .. } = message {
            let ids: Vec<_> = results.iter().map(|result| result.tool_use_id.clone()).collect();
            if ids != open {
                return Err("results that do not match the calls");
            }
            open.clear();
            continue;
        }
        if !open.is_empty() {
            return Err("calls without results");
        }
        if matches!(message, Message::Assistant { blocks, .. } if blocks.is_empty()) {
            return Err("an empty response");
        }
        let mut seen = BTreeSet::new();
        open = message
            .tool_calls()
            .into_iter()
            .map(|call| call.id)
            .filter(|id| seen.insert(id.clone()))
            .collect();
    }
    if open.is_empty() { Ok(()) } else { Err("calls without results at the end") }
}

fn shape(messages: &[Message]) -> String {
    let letter = |message: &Message| match message {
        Message::System { .. } => 's',
        Message::SystemNotice { .. } => 'n',
        Message::User { .. } => 'u',
        Message::ToolResults { .. } => 'r',
        Message::Assistant { blocks, .. } => match blocks.first() {
            Some(AssistantBlock::Text { .. }) => 't',
            Some(AssistantBlock::Reasoning { .. }) => 'h',
            Some(AssistantBlock::ToolUse { .. }) => 'c',
            _ => 'o',
        },
    };
    messages.iter().take(6).map(letter).collect::<String>() + " "
}
