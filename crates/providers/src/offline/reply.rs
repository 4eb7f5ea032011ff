//! Built-in responses of the offline model.

use std::collections::HashMap;
use std::sync::Arc;

use meerkat_core::{AssistantBlock, Message, ToolDef};

/// Prefix of the runtime's request for a summary.
pub(super) const SUMMARY_REQUEST: &str = "Summarize the conversation so far";

/// Maximum length of a quotation of a prompt or tool result, in characters.
const QUOTE: usize = 200;
/// Maximum lengths of a summary line and of a summary, in characters.
const SUMMARY_LINE: usize = 120;
const SUMMARY: usize = 2000;
/// Maximum number of lines in lists of tools and of results.
const MAX_LINES: usize = 200;

/// Describes the model and how to configure a real one.
pub(super) fn about(prompt: &str) -> String {
    let words = cut(prompt.trim(), QUOTE);
    let quoted = if words.is_empty() { String::new() } else { format!(" You said: “{words}”.") };
    format!(
        "I am Meerkat's offline model: no API key is configured, and I make no network calls.{quoted} To try things, \
         write a line such as `say TEXT` or `call NAME {{json}}`, or ask “which tools”. For a real model, set \
         ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or pass --model."
    )
}

/// Returns `true` if a prompt asks which tools are available.
pub(super) fn asks_for_tools(prompt: &str) -> bool {
    let prompt = prompt.to_ascii_lowercase();
    ["which tools", "what tools", "list tools", "list your tools"].iter().any(|words| prompt.contains(words))
}

/// Lists the tools.
pub(super) fn tool_list(tools: &[ToolDef]) -> String {
    if tools.is_empty() {
        return "There are no tools in this request.".to_owned();
    }
    let line = |tool: &ToolDef| format!("{}: {}", tool.name, cut(first_line(&tool.description), QUOTE));
    let lines = tools.iter().map(line).collect();
    format!("I can see these tools:\n{}", join(lines))
}

/// Quotes the results of the calls in these messages, in call order.
pub(super) fn results(messages: &[Arc<Message>]) -> String {
    let mut names = HashMap::new();
    let mut lines = Vec::new();
    for message in messages {
        match &**message {
            Message::Assistant { blocks, .. } => {
                names.extend(blocks.iter().filter_map(|block| match block {
                    AssistantBlock::ToolUse { id, name, .. } => Some((id.as_str(), name.as_str())),
                    _ => None,
                }))
            }
            Message::ToolResults { results, .. } => lines.extend(results.iter().map(|result| {
                let name = names.get(result.tool_use_id.as_str()).unwrap_or(&"tool");
                let failed = if result.is_error { " failed" } else { "" };
                let text = one_line(&cut(&result.content.to_text(), QUOTE));
                format!("{name}{failed} → {text}")
            })),
            _ => {}
        }
    }
    if lines.is_empty() {
        return "No tool gave a result.".to_owned();
    }
    join(lines)
}

/// Summarizes a conversation, except for the request to do so, by the first line of each message.
pub(super) fn summary(messages: &[Arc<Message>]) -> String {
    let conversation = messages.split_last().map_or(messages, |(_, earlier)| earlier);
    let mut lines = Vec::new();
    let mut remaining = SUMMARY;
    for message in conversation.iter().rev() {
        let line = summary_line(message);
        let size = line.chars().count() + 1;
        if size > remaining {
            break;
        }
        remaining -= size;
        lines.push(line);
    }
    let left_out = conversation.len() - lines.len();
    if left_out > 0 {
        lines.push(format!("({left_out} earlier messages)"));
    }
    if lines.is_empty() {
        return "Nothing was said so far.".to_owned();
    }
    lines.reverse();
    lines.join("\n")
}

fn summary_line(message: &Message) -> String {
    let (role, text) = match message {
        Message::System { content, .. } => ("system", content.clone()),
        Message::SystemNotice { body, .. } => ("notice", body.clone()),
        Message::User { content, .. } => ("user", content.to_text()),
        Message::Assistant { .. } => ("assistant", assistant_words(message)),
        Message::ToolResults { results, .. } => {
            let first = results.first().map(|result| result.content.to_text());
            ("tool", first.unwrap_or_default())
        }
    };
    format!("{role}: {}", cut(first_line(&text), SUMMARY_LINE))
}

fn assistant_words(message: &Message) -> String {
    message.assistant_text().unwrap_or_else(|| {
        let names: Vec<_> = message.tool_calls().into_iter().map(|call| call.name).collect();
        if names.is_empty() { "(no text)".to_owned() } else { format!("called {}", names.join(", ")) }
    })
}

fn first_line(text: &str) -> &str {
    text.trim_start().lines().next().unwrap_or_default()
}

fn one_line(text: &str) -> String {
    text.lines().collect::<Vec<_>>().join(" ")
}

fn join(mut lines: Vec<String>) -> String {
    let left_out = lines.len().saturating_sub(MAX_LINES);
    if left_out > 0 {
        lines.truncate(MAX_LINES);
        lines.push(format!("… and {left_out} more"));
    }
    lines.join("\n")
}

fn cut(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
