//! The request body.

use meerkat_core::{ModelInfo, ModelRequest, OutputSchema, Provider, ToolDef};
use serde_json::{Map, Value, json};

use super::input;
use crate::schema::{self, Dialect};
use crate::wire::{Body, is_reserved, object, system};

/// Minimum that OpenAI accepts for `max_output_tokens`.
const MIN_OUTPUT_TOKENS: u32 = 16;
/// Keys of the caller that are mapped to other fields, or not supported here.
const MAPPED: [&str; 3] = ["reasoning_effort", "web_search", "google_search"];
const INCLUDE: &str = "include";

/// Builds the body of a streaming request.
pub(super) fn body(info: &ModelInfo, request: &ModelRequest) -> Body {
    let none = Map::new();
    let params = request.provider_params.as_deref().and_then(Value::as_object).unwrap_or(&none);
    let (tools, left_out) = schema::sanitize(&request.tools, Dialect::OpenAi);
    let tools = tool_list(&tools, params.get("web_search"));
    let profile = info.profile;
    let mut body = object([
        ("model", Some(json!(info.id))),
        ("instructions", system(request).map(Value::from)),
        ("input", Some(input::items(info, &request.messages).into())),
        ("tools", (!tools.is_empty()).then(|| tools.into())),
        ("max_output_tokens", Some(json!(limit(info, request.max_tokens)))),
        ("temperature", request.temperature.filter(|_| profile.supports_temperature).map(decimal)),
        ("text", request.output_schema.as_ref().map(|schema| json!({ "format": format(schema) }))),
        ("reasoning", reasoning(info, params.get("reasoning_effort"))),
        (INCLUDE, profile.supports_reasoning.then(|| json!(["reasoning.encrypted_content"]))),
        ("store", Some(json!(false))),
        ("stream", Some(json!(true))),
    ]);
    pass_through(&mut body, params, info);
    Body { json: Value::Object(body), left_out }
}

/// Returns `true` if a model accepts a parameter in this format. OpenAI rejects the whole request for an unknown
/// parameter; other servers are more lenient, and support more.
pub(super) fn is_taken(info: &ModelInfo, key: &str) -> bool {
    match key {
        "seed" | "frequency_penalty" | "presence_penalty" => info.provider != Provider::OpenAi,
        "temperature" => info.profile.supports_temperature,
        _ => true,
    }
}

fn limit(info: &ModelInfo, requested: u32) -> u32 {
    let requested = requested.max(MIN_OUTPUT_TOKENS);
    info.max_output_tokens.map_or(requested, |maximum| requested.min(maximum))
}

/// Converts a number through its decimal text: `0.7`, not `0.699999988079071`.
fn decimal(number: f32) -> Value {
    number.to_string().parse::<f64>().map_or(Value::Null, |number| json!(number))
}

/// Lists the caller's tools, and the provider's web search if it is enabled.
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
        "name": output.name.as_deref().map_or_else(|| "output".to_owned(), input::name),
        "schema": schema::output(&output.schema, Dialect::OpenAi, output.strict),
        "strict": output.strict,
    })
}

/// Returns the reasoning options: by default if the model reasons, and whenever the caller sets an effort.
fn reasoning(info: &ModelInfo, effort: Option<&Value>) -> Option<Value> {
    let (is_supported, medium) = (info.profile.supports_reasoning, json!("medium"));
    let effort = effort.filter(|effort| !effort.is_null()).or(is_supported.then_some(&medium))?;
    let is_summarized = is_supported && effort != "none";
    Some(if is_summarized {
        json!({ "effort": effort, "summary": "auto" })
    } else {
        json!({ "effort": effort })
    })
}

/// Adds the caller's other parameters; `null` removes a default.
fn pass_through(body: &mut Map<String, Value>, params: &Map<String, Value>, info: &ModelInfo) {
    for (key, value) in params {
        if MAPPED.contains(&key.as_str()) || !is_taken(info, key) || is_reserved(info.provider, key) {
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
