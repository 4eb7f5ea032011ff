//! A response under construction: streamed word by word, stored complete.

use std::sync::Arc;

use meerkat_core::{
    AssistantBlock, Delta, DeltaSink, Message, ModelRequest, ModelResponse, ResponseStatus, StopReason,
    Usage, estimate_tokens,
};
use serde_json::Value;

/// Prefix of call ids.
const CALL_ID: &str = "call_";

pub(super) struct Output<'a> {
    deltas: DeltaSink<'a>,
    reasoning: Option<String>,
    text: Option<String>,
    calls: Vec<(String, Value)>,
}

impl<'a> Output<'a> {
    pub(super) fn new(deltas: DeltaSink<'a>) -> Self {
        Self { deltas, reasoning: None, text: None, calls: Vec::new() }
    }

    /// Adds a line of text.
    pub(super) fn say(&mut self, line: &str) {
        add_line(&mut self.text, line, |piece| (self.deltas)(Delta::Text(piece)));
    }

    /// Adds a line of reasoning.
    pub(super) fn think(&mut self, line: &str) {
        add_line(&mut self.reasoning, line, |piece| {
            (self.deltas)(Delta::Reasoning(piece));
        });
    }

    /// Adds a tool call.
    pub(super) fn call(&mut self, name: &str, args: Value) {
        self.calls.push((name.to_owned(), args));
    }

    /// Builds the response: reasoning, text, calls.
    pub(super) fn finish(self, request: &ModelRequest) -> ModelResponse {
        let stop_reason = if self.calls.is_empty() { StopReason::EndTurn } else { StopReason::ToolUse };
        let filled = |text: Option<String>| text.filter(|text| !text.is_empty());
        let reasoning = filled(self.reasoning).map(|text| AssistantBlock::Reasoning { text, meta: None });
        let text = filled(self.text).map(|text| AssistantBlock::Text { text, meta: None });
        let first_id = next_call(&request.messages);
        let calls = self.calls.into_iter().zip(first_id..);
        let calls = calls.map(|((name, args), number)| AssistantBlock::ToolUse {
            id: format!("{CALL_ID}{number}"),
            name,
            args,
            meta: None,
        });
        let blocks: Vec<_> = reasoning.into_iter().chain(text).chain(calls).collect();
        ModelResponse {
            usage: usage(request, &blocks),
            blocks,
            stop_reason,
            extent: ResponseStatus::Complete,
        }
    }
}

fn add_line(text: &mut Option<String>, line: &str, emit: impl Fn(String)) {
    let is_continuation = text.is_some();
    let text = text.get_or_insert_default();
    if is_continuation {
        text.push('\n');
        emit("\n".to_owned());
    }
    text.push_str(line);
    let mut start = 0;
    let mut in_space = false;
    for (at, c) in line.char_indices() {
        if in_space && !c.is_whitespace() {
            emit(line[start..at].to_owned());
            start = at;
        }
        in_space = c.is_whitespace();
    }
    if start < line.len() {
        emit(line[start..].to_owned());
    }
}

/// Returns a number for the next call that no call in the request uses, even if a compaction omitted some.
fn next_call(messages: &[Arc<Message>]) -> u64 {
    let (mut count, mut highest) = (0_u64, 0);
    for message in messages {
        let Message::Assistant { blocks, .. } = &**message else {
            continue;
        };
        for block in blocks {
            if let AssistantBlock::ToolUse { id, .. } = block {
                let number = id.strip_prefix(CALL_ID).and_then(|number| number.parse().ok());
                highest = number.unwrap_or(0).max(highest);
                count += 1;
            }
        }
    }
    count.max(highest).saturating_add(1)
}

fn usage(request: &ModelRequest, blocks: &[AssistantBlock]) -> Usage {
    let input: u64 = request.messages.iter().map(|message| estimate_tokens(message)).sum();
    let bytes = |block: &AssistantBlock| match block {
        AssistantBlock::Text { text, .. } | AssistantBlock::Reasoning { text, .. } => text.len(),
        AssistantBlock::ToolUse { name, args, .. } => name.len() + args.to_string().len(),
        _ => 0,
    };
    let output: usize = blocks.iter().map(bytes).sum();
    Usage {
        input_tokens: input + request.system.len() as u64 / 4 + 1,
        output_tokens: output as u64 / 4 + 1,
        ..Usage::default()
    }
}
