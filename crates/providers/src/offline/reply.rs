//! What the offline model says of its own accord.

use std::collections::HashMap;
use std::sync::Arc;

use meerkat_core::{AssistantBlock, Message, ToolDef};

/// How the runtime's request for a summary begins.
pub(super) const SUMMARY_REQUEST: &str = "Summarize the conversation so far";

/// The longest quotation of a prompt or of a tool's result, in characters.
const QUOTE: usize = 200;
/// The longest line of a summary, and the longest summary.
const SUMMARY_LINE: usize = 120;
const SUMMARY: usize = 2000;
/// The longest lists of tools and of results.
const MOST_LINES: usize = 200;

/// Says what it is, and how to get something better.
pub(super) fn about(prompt: &str) -> String {
    let words = cut(prompt.trim(), QUOTE);
    let heard = if words.is_empty() { String::new() } else { format!(" You said: “{words}”.") };
    format!(
        "I am Meerkat's offline model: no API key is configured, and I make no network calls.{heard} To try things, \
         write a line such as `say TEXT` or `call NAME {{json}}`, or ask “which tools”. For a real model, set \
         ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or pass --model."
    )
}

/// Says whether a prompt asks what tools there are.
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

/// Summarizes a conversation, without the request to do so, by the first line of each message.
pub(super) fn summary(messages: &[Arc<Message>]) -> String {
    let said = messages.split_last().map_or(messages, |(_, said)| said);
    let mut lines = Vec::new();
    let mut room = SUMMARY;
    for message in said.iter().rev() {
        let line = summary_line(message);
        let size = line.chars().count() + 1;
        if size > room {
            break;
        }
        room -= size;
        lines.push(line);
    }
    let left_out = said.len() - lines.len();
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
    let left_out = lines.len().saturating_sub(MOST_LINES);
    if left_out > 0 {
        lines.truncate(MOST_LINES);
        lines.push(format!("… and {left_out} more"));
    }
    lines.join("\n")
}

fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
