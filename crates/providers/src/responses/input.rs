//! The conversation as input items.
//!
//! Ids go back only with what was made together with them: OpenAI refuses a message or a search whose
//! reasoning is missing, and reasoning that nothing follows.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use meerkat_core::{
    AssistantBlock, Content, ContentBlock, MediaSource, Message, ModelInfo, Provider, ToolResult,
};
use serde_json::{Value, json};

use crate::{history, pictures};

/// The longest call id and the longest name that OpenAI takes.
const MAX_NAME: usize = 64;

/// Makes the input items of a conversation.
pub(super) fn items(info: &ModelInfo, messages: &[Arc<Message>]) -> Vec<Value> {
    let mut items = Vec::new();
    for message in history::normalise(messages, history::tag(info.provider)) {
        match message {
            Message::System { content, .. } => items.push(notice(&content)),
            Message::SystemNotice { body, .. } => items.push(notice(&body)),
            Message::User { content, .. } => {
                items.push(said(&parts(&content, info.profile.vision)));
            }
            Message::Assistant { blocks, .. } => answered(info.provider, &blocks, &mut items),
            Message::ToolResults { results, .. } => {
                let seen = info.profile.image_tool_results;
                items.extend(results.iter().map(|result| call_output(result, seen)));
            }
        }
    }
    if items.is_empty() {
        items.push(said(&[input_text("Continue.")]));
    }
    items
}

/// Makes a name of the letters, digits, `_` and `-` that OpenAI takes in names.
pub(super) fn plain_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    let name: String = name.chars().take(MAX_NAME).map(plain).collect();
    if name.is_empty() { "_".to_owned() } else { name }
}

fn notice(text: &str) -> Value {
    said(&[input_text(&format!("[SYSTEM NOTICE] {text}"))])
}

fn said(content: &[Value]) -> Value {
    json!({ "type": "message", "role": "user", "content": content })
}

fn input_text(text: &str) -> Value {
    json!({ "type": "input_text", "text": text })
}

/// Makes content parts; what cannot be seen is described.
fn parts(content: &Content, sees_images: bool) -> Vec<Value> {
    let part = |block: &ContentBlock| match block {
        ContentBlock::Text { text } if text.trim().is_empty() => None,
        ContentBlock::Image { media_type, source: MediaSource::Inline { data } } if sees_images => {
            let Some(media_type) = pictures::readable(media_type, &pictures::COMMON) else {
                return Some(input_text(&block.to_text()));
            };
            let url = format!("data:{media_type};base64,{data}");
            Some(json!({ "type": "input_image", "detail": "auto", "image_url": url }))
        }
        other => Some(input_text(&other.to_text())),
    };
    content.blocks().iter().filter_map(part).collect()
}

fn call_output(result: &ToolResult, sees_images: bool) -> Value {
    let mut parts = parts(&result.content, sees_images);
    let text = |part: &Value| part["text"].as_str().map(str::to_owned);
    let texts: Option<Vec<_>> = parts.iter().map(text).collect();
    let output = match texts {
        Some(texts) => Value::String(failure_shown(result.is_error, texts.join("\n"))),
        None => {
            if result.is_error {
                parts.insert(0, input_text("Error:"));
            }
            Value::Array(parts)
        }
    };
    json!({ "type": "function_call_output", "call_id": call_id(&result.tool_use_id), "output": output })
}

/// Says in words that a call failed, since the format has no field for it.
fn failure_shown(is_error: bool, text: String) -> String {
    match (is_error, text.is_empty()) {
        (true, true) => "Error: (no output)".to_owned(),
        (true, false) if !text.starts_with("{\"error\"") => format!("Error: {text}"),
        (false, true) => "(no output)".to_owned(),
        _ => text,
    }
}

/// Makes a call id of at most 64 characters; the same id always gives the same.
fn call_id(id: &str) -> String {
    if id.len() <= MAX_NAME {
        return id.to_owned();
    }
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    format!("call_{:016x}", hasher.finish())
}

/// Adds the items of one answer.
fn answered(provider: Provider, blocks: &[AssistantBlock], items: &mut Vec<Value>) {
    let is_reasoning = |block: &AssistantBlock| matches!(block, AssistantBlock::Reasoning { .. });
    let end = blocks.iter().rposition(|block| !is_reasoning(block)).map_or(0, |last| last + 1);
    let whole = !blocks[..end].iter().any(|b| is_reasoning(b) && reasoning(provider, b).is_none());
    for block in &blocks[..end] {
        if let Some(mut item) = answer_item(provider, block, whole) {
            if item["type"] == "message" && item.get("id").is_none() {
                identify(provider, &mut item, items.len());
            }
            items.push(item);
        }
    }
}

/// Completes a message that has no id of the provider's: OpenAI takes it as plain text without one, other
/// servers want parts and any id.
fn identify(provider: Provider, item: &mut Value, place: usize) {
    if provider != Provider::OpenAi {
        item["id"] = json!(format!("msg_{place}"));
        return;
    }
    let text = item["content"][0]["text"].take();
    item["content"] = text;
    if let Some(item) = item.as_object_mut() {
        item.remove("status");
    }
}

/// Makes the item of a block; `whole` says that all the reasoning before it goes back too.
fn answer_item(provider: Provider, block: &AssistantBlock, whole: bool) -> Option<Value> {
    match block {
        AssistantBlock::Text { text, meta } => {
            let mut item = output_text(text);
            if let Some(list @ Value::Array(_)) = meta.as_ref().and_then(|meta| meta.get("annotations")) {
                item["content"][0]["annotations"] = list.clone();
            }
            for key in ["id", "phase"] {
                let kept = meta.as_ref().and_then(|meta| meta.get(key)).filter(|value| value.is_string());
                if let Some(kept) = kept.filter(|_| whole || key != "id") {
                    item[key] = kept.clone();
                }
            }
            Some(item)
        }
        AssistantBlock::Reasoning { .. } => reasoning(provider, block),
        AssistantBlock::ToolUse { id, name, args, .. } => Some(json!({
            "type": "function_call",
            "call_id": call_id(id),
            "name": plain_name(name),
            "arguments": arguments(args),
        })),
        AssistantBlock::ServerToolContent { content, .. } => {
            let complete = ["id", "type", "status"].iter().all(|key| content[*key].is_string());
            let searched = content["type"] != "web_search_call" || content["action"].is_object();
            (whole && complete && searched).then(|| content.clone())
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

/// Makes the item of reasoning, if it can go back: encrypted, or in the clear to a server that keeps it so.
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

/// Writes arguments as the text of an object, which they are unless the model wrote something unreadable.
fn arguments(args: &Value) -> String {
    match args {
        Value::Object(_) => args.to_string(),
        Value::Null => "{}".to_owned(),
        other => json!({ "unreadable_arguments": other }).to_string(),
    }
}
