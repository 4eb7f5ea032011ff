//! The conversation as input items.
//!
//! Ids are sent back only together with everything they were generated with: OpenAI rejects a message or a search
//! whose reasoning is missing, and reasoning that nothing follows.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use meerkat_core::{AssistantBlock, Content, ContentBlock, Message, ModelInfo, Provider, ToolResult};
use serde_json::{Value, json};

use crate::history;
use crate::image_types::{COMMON, inline_image};
use crate::wire::plain_name;

/// Maximum length of call ids and names.
const MAX_NAME: usize = 64;

/// Converts a conversation into input items.
pub(super) fn items(info: &ModelInfo, messages: &[Arc<Message>]) -> Vec<Value> {
    let mut items = Vec::new();
    for message in history::normalize(messages, history::tag(info.provider)) {
        match message {
            Message::System { content: text, .. } | Message::SystemNotice { body: text, .. } => {
                items.push(user_message(&[input_text(&format!("[SYSTEM NOTICE] {text}"))]));
            }
            Message::User { content, .. } => {
                items.push(user_message(&parts(&content, info.profile.vision)));
            }
            Message::Assistant { blocks, .. } => push_answer(info.provider, &blocks, &mut items),
            Message::ToolResults { results, .. } => {
                let sees_images = info.profile.image_tool_results;
                items.extend(results.iter().map(|result| call_output(result, sees_images)));
            }
        }
    }
    if items.is_empty() {
        items.push(user_message(&[input_text("Continue.")]));
    }
    items
}

/// Replaces characters that OpenAI does not allow in names.
pub(super) fn name(name: &str) -> String {
    plain_name(name, MAX_NAME, "_")
}

fn user_message(content: &[Value]) -> Value {
    json!({ "type": "message", "role": "user", "content": content })
}

fn input_text(text: &str) -> Value {
    json!({ "type": "input_text", "text": text })
}

/// Converts content into parts; media that the model cannot see is described.
fn parts(content: &Content, sees_images: bool) -> Vec<Value> {
    let part = |block: &ContentBlock| {
        if let Some((media_type, data)) = inline_image(block, &COMMON).filter(|_| sees_images) {
            let url = format!("data:{media_type};base64,{data}");
            return Some(json!({ "type": "input_image", "detail": "auto", "image_url": url }));
        }
        let text = block.to_text();
        (!text.trim().is_empty()).then(|| input_text(&text))
    };
    content.blocks().iter().filter_map(part).collect()
}

fn call_output(result: &ToolResult, sees_images: bool) -> Value {
    let mut parts = parts(&result.content, sees_images);
    let text = |part: &Value| part["text"].as_str().map(str::to_owned);
    let texts: Option<Vec<_>> = parts.iter().map(text).collect();
    let output = match texts {
        Some(texts) => Value::String(with_failure_prefix(result.is_error, texts.join("\n"))),
        None => {
            if result.is_error {
                parts.insert(0, input_text("Error:"));
            }
            Value::Array(parts)
        }
    };
    json!({ "type": "function_call_output", "call_id": call_id(&result.tool_use_id), "output": output })
}

/// Adds a prefix to the result of a failed call, since the format has no field for failures.
fn with_failure_prefix(is_error: bool, text: String) -> String {
    match (is_error, text.is_empty()) {
        (true, true) => "Error: (no output)".to_owned(),
        (true, false) if !text.starts_with("{\"error\"") => format!("Error: {text}"),
        (false, true) => "(no output)".to_owned(),
        _ => text,
    }
}

/// Returns a call id of at most 64 characters; the same id always gives the same result.
fn call_id(id: &str) -> String {
    if id.len() <= MAX_NAME {
        return id.to_owned();
    }
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    format!("call_{:016x}", hasher.finish())
}

/// Adds the items of one answer.
fn push_answer(provider: Provider, blocks: &[AssistantBlock], items: &mut Vec<Value>) {
    let is_reasoning = |block: &AssistantBlock| matches!(block, AssistantBlock::Reasoning { .. });
    let end = blocks.iter().rposition(|block| !is_reasoning(block)).map_or(0, |last| last + 1);
    let has_all_reasoning =
        !blocks[..end].iter().any(|b| is_reasoning(b) && reasoning(provider, b).is_none());
    for block in &blocks[..end] {
        if let Some(mut item) = answer_item(provider, block, has_all_reasoning) {
            if item["type"] == "message" && item.get("id").is_none() {
                complete_message(provider, &mut item, items.len());
            }
            items.push(item);
        }
    }
}

/// Completes a message without a provider id: OpenAI accepts it as plain text without one, other servers require
/// parts and any id.
fn complete_message(provider: Provider, item: &mut Value, position: usize) {
    if provider != Provider::OpenAi {
        item["id"] = json!(format!("msg_{position}"));
        return;
    }
    let text = item["content"][0]["text"].take();
    item["content"] = text;
    if let Some(item) = item.as_object_mut() {
        item.remove("status");
    }
}

/// Converts a block into an item; `has_all_reasoning` states that all the reasoning before it is sent back too.
fn answer_item(provider: Provider, block: &AssistantBlock, has_all_reasoning: bool) -> Option<Value> {
    match block {
        AssistantBlock::Text { text, meta } => {
            let mut item = output_text(text);
            if let Some(list @ Value::Array(_)) = meta.as_ref().and_then(|meta| meta.get("annotations")) {
                item["content"][0]["annotations"] = list.clone();
            }
            for key in ["id", "phase"] {
                let value = meta.as_ref().and_then(|meta| meta.get(key)).filter(|value| value.is_string());
                if let Some(value) = value.filter(|_| has_all_reasoning || key != "id") {
                    item[key] = value.clone();
                }
            }
            Some(item)
        }
        AssistantBlock::Reasoning { .. } => reasoning(provider, block),
        AssistantBlock::ToolUse { id, name, args, .. } => Some(json!({
            "type": "function_call",
            "call_id": call_id(id),
            "name": self::name(name),
            "arguments": arguments(args),
        })),
        AssistantBlock::ServerToolContent { content, .. } => {
            let is_complete = ["id", "type", "status"].iter().all(|key| content[*key].is_string());
            let is_valid_search = content["type"] != "web_search_call" || content["action"].is_object();
            (has_all_reasoning && is_complete && is_valid_search).then(|| content.clone())
        }
        AssistantBlock::Image(image) => Some(output_text(&format!("[image: {}]", image.media_type))),
    }
}

fn output_text(text: &str) -> Value {
    json!({
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{ "type": "output_text", "text": text, "annotations": [] }],
    })
}

/// Converts reasoning into an item, if it can be sent back: encrypted, or in plain text to a server that uses it.
fn reasoning(provider: Provider, block: &AssistantBlock) -> Option<Value> {
    let AssistantBlock::Reasoning { meta: Some(meta), .. } = block else {
        return None;
    };
    let list = |key: &str| meta.get(key).filter(|list| list.is_array()).cloned();
    let encrypted = meta["encrypted_content"].as_str().filter(|text| !text.is_empty());
    let content = list("content").filter(|_| provider != Provider::OpenAi);
    if encrypted.is_none() && content.is_none() {
        return None;
    }
    let mut item = json!({ "type": "reasoning", "id": meta["id"].as_str()? });
    item["summary"] = list("summary").unwrap_or_else(|| json!([]));
    if let Some(content) = content {
        item["content"] = content;
    }
    if let Some(encrypted) = encrypted {
        item["encrypted_content"] = json!(encrypted);
    }
    Some(item)
}

/// Serializes arguments as an object, which they are unless the model wrote invalid JSON.
fn arguments(args: &Value) -> String {
    match args {
        Value::Object(_) => args.to_string(),
        Value::Null => "{}".to_owned(),
        other => json!({ "unreadable_arguments": other }).to_string(),
    }
}
