//! The body of a call.

use meerkat_core::{ModelInfo, ModelRequest, OutputSchema, Provider, ToolDef};
use serde_json::{Map, Value, json};

use super::input;
use crate::schema::{self, Dialect};
use crate::wire::{Body, is_for_others};

/// The least that OpenAI takes for `max_output_tokens`.
const MIN_OUTPUT_TOKENS: u32 = 16;
/// What the caller may not replace.
const OURS: [&str; 6] = ["input", "messages", "contents", "tools", "stream", "model"];
/// What the caller names that has its own place in the body, or none here.
const MAPPED: [&str; 3] = ["reasoning_effort", "web_search", "google_search"];
const INCLUDE: &str = "include";

/// Makes the body of a streaming call.
pub(super) fn body(info: &ModelInfo, request: &ModelRequest) -> Body {
    let none = Map::new();
    let params = request.provider_params.as_deref().and_then(Value::as_object).unwrap_or(&none);
    let (tools, left_out) = schema::sanitise(&request.tools, Dialect::OpenAi);
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(info.id));
    if !request.system.trim().is_empty() {
        body.insert("instructions".to_owned(), json!(request.system));
    }
    body.insert("input".to_owned(), Value::Array(input::items(info, &request.messages)));
    let tools = tool_list(&tools, params.get("web_search"));
    if !tools.is_empty() {
        body.insert("tools".to_owned(), Value::Array(tools));
    }
    body.insert("max_output_tokens".to_owned(), json!(limit(info, request.max_tokens)));
    if let Some(temperature) = request.temperature.filter(|_| info.profile.supports_temperature) {
        body.insert("temperature".to_owned(), decimal(temperature));
    }
    if let Some(schema) = &request.output_schema {
        body.insert("text".to_owned(), json!({ "format": format(schema) }));
    }
    if let Some(reasoning) = reasoning(info, params.get("reasoning_effort")) {
        body.insert("reasoning".to_owned(), reasoning);
    }
    if info.profile.supports_reasoning {
        body.insert(INCLUDE.to_owned(), json!(["reasoning.encrypted_content"]));
    }
    body.insert("store".to_owned(), json!(false));
    body.insert("stream".to_owned(), json!(true));
    pass_through(&mut body, params, info);
    Body { json: Value::Object(body), left_out }
}

/// Says whether a model takes a parameter in this format. OpenAI refuses the whole request for one that it does
/// not know; other servers are more lenient, and know more.
pub(super) fn is_taken(info: &ModelInfo, key: &str) -> bool {
    match key {
        "seed" | "frequency_penalty" | "presence_penalty" => info.provider != Provider::OpenAi,
        "temperature" => info.profile.supports_temperature,
        _ => true,
    }
}

fn limit(info: &ModelInfo, asked: u32) -> u32 {
    let asked = asked.max(MIN_OUTPUT_TOKENS);
    info.max_output_tokens.map_or(asked, |most| asked.min(most))
}

/// Writes a number as its author did: `0.7`, not `0.699999988079071`.
fn decimal(number: f32) -> Value {
    number.to_string().parse::<f64>().map_or(Value::Null, |number| json!(number))
}

/// Lists the caller's tools, and the provider's web search where it is on.
fn tool_list(tools: &[ToolDef], web_search: Option<&Value>) -> Vec<Value> {
    let function = |tool: &ToolDef| {
        json!({
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.input_schema,
            "strict": false,
        })
    };
    let mut list: Vec<_> = tools.iter().map(function).collect();
    if let Some(Value::Object(search)) = web_search {
        let mut search = search.clone();
        search.entry("type").or_insert_with(|| json!("web_search"));
        list.push(Value::Object(search));
    }
    list
}

fn format(output: &OutputSchema) -> Value {
    json!({
        "type": "json_schema",
        "name": output.name.as_deref().map_or_else(|| "output".to_owned(), input::plain_name),
        "schema": schema::output(&output.schema, Dialect::OpenAi, output.strict),
        "strict": output.strict,
    })
}

/// Says how hard to think: by default where the model reasons, and wherever the caller asks for it.
fn reasoning(info: &ModelInfo, effort: Option<&Value>) -> Option<Value> {
    let effort = effort.filter(|effort| !effort.is_null());
    match effort {
        None if info.profile.supports_reasoning => Some(json!({ "effort": "medium", "summary": "auto" })),
        Some(effort) if info.profile.supports_reasoning && effort != "none" => {
            Some(json!({ "effort": effort, "summary": "auto" }))
        }
        Some(effort) => Some(json!({ "effort": effort })),
        None => None,
    }
}

/// Adds what the caller wants passed on; `null` takes away what would be sent by default.
fn pass_through(body: &mut Map<String, Value>, params: &Map<String, Value>, info: &ModelInfo) {
    for (key, value) in params {
        let ours = OURS.contains(&key.as_str()) || MAPPED.contains(&key.as_str());
        if ours || !is_taken(info, key) || is_for_others(info.provider, key) {
            continue;
        }
        match (body.get_mut(key), value) {
            (Some(Value::Array(ours)), Value::Array(more)) if key == INCLUDE => {
                let new: Vec<_> = more.iter().filter(|value| !ours.contains(value)).cloned().collect();
                ours.extend(new);
            }
            (Some(Value::Object(ours)), Value::Object(more)) => {
                ours.extend(more.iter().map(|(key, value)| (key.clone(), value.clone())));
            }
            (_, Value::Null) => {
                body.shift_remove(key);
            }
            _ => {
                body.insert(key.clone(), value.clone());
            }
        }
    }
}
