//! The request body, and the beta features it enables by name.

use meerkat_core::{ModelInfo, ModelRequest, Provider};
use serde_json::{Map, Number, Value, json};

use super::messages::{self, Role, Turn};
use crate::schema::{self, Dialect};
use crate::wire::{Body, is_reserved, object, system};

/// Minimum thinking budget.
const MIN_BUDGET: u64 = 1024;
/// Edit that summarizes a conversation on the provider's side.
const COMPACT: &str = "compact_20260112";

/// Whether the API version accepts sampling parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sampling {
    Accepted,
    Rejected,
}

/// Builds the body of a streaming request.
pub(super) fn body(info: &ModelInfo, request: &ModelRequest, sampling: Sampling) -> Body {
    let mut params = match request.provider_params.as_deref() {
        Some(Value::Object(params)) => params.clone(),
        _ => Map::new(),
    };
    params.retain(|key, _| !is_reserved(Provider::Anthropic, key));
    let mut turns = messages::turns(&request.messages, info.profile);
    let (tools, left_out) = tools(request, params.shift_remove("web_search"));
    let mut thinking = thinking(&mut params);
    if budget(thinking.as_ref()).is_some() && messages::began_without_thinking(&turns) {
        thinking = None;
    }
    let max_tokens = limit(info, request, &mut params, &mut thinking);
    let is_fixed = is_on(thinking.as_ref()) || !info.profile.supports_temperature;
    let sampling = if is_fixed { Sampling::Rejected } else { sampling };
    if tools.is_empty() {
        params.shift_remove("tool_choice");
    }
    mark_user(&mut turns);
    let mut body = object([
        ("model", Some(json!(info.id))),
        ("max_tokens", Some(json!(max_tokens))),
        ("stream", Some(json!(true))),
        ("system", system(request).map(|text| json!([cached(json!({ "type": "text", "text": text }))]))),
    ]);
    body.extend(sample(&mut params, request, sampling));
    body.extend(object([
        ("thinking", thinking),
        ("output_config", output(&mut params, request)),
        ("context_management", context(&mut params)),
        ("tools", (!tools.is_empty()).then(|| tools.into())),
        ("messages", Some(turns.into_iter().map(Turn::into_json).collect())),
    ]));
    body.extend(params.into_iter().filter(|(_, value)| !value.is_null()));
    Body { json: Value::Object(body), left_out }
}

/// Returns the features used in a body that must be enabled only in the first API version.
pub(super) fn older_betas(body: &Value) -> Vec<&'static str> {
    let mut betas = Vec::new();
    if body.pointer("/output_config/format").is_some() {
        betas.push("structured-outputs-2025-11-13");
    }
    if is_on(body.get("thinking")) && body.get("tools").is_some() {
        betas.push("interleaved-thinking-2025-05-14");
    }
    betas
}

/// Returns the feature that must be enabled in every API version, if a body uses it.
pub(super) fn beta(body: &Value) -> Option<&'static str> {
    let edits = body.pointer("/context_management/edits")?.as_array()?;
    let is_compact = |edit: &Value| edit.get("type").and_then(Value::as_str) == Some(COMPACT);
    edits.iter().any(is_compact).then_some("compact-2026-01-12")
}

/// Marks a block as the end of a cacheable prefix.
fn cached(mut block: Value) -> Value {
    if let Value::Object(fields) = &mut block {
        fields.entry("cache_control").or_insert_with(|| json!({ "type": "ephemeral" }));
    }
    block
}

fn mark_user(turns: &mut [Turn]) {
    let last = turns.iter_mut().rev().find(|turn| turn.role == Role::User);
    if let Some(block) = last.and_then(|turn| turn.blocks.last_mut()) {
        *block = cached(block.take());
    }
}

type LeftOut = Vec<(String, String)>;

fn tools(request: &ModelRequest, search: Option<Value>) -> (Vec<Value>, LeftOut) {
    let (tools, mut left_out) = schema::sanitize(&request.tools, Dialect::Anthropic);
    let mut search = search_tool(search);
    if let Some(name) = search.as_ref().and_then(|tool| tool.get("name")).and_then(Value::as_str)
        && tools.iter().any(|tool| tool.name == name)
    {
        left_out
            .push((name.to_owned(), "another tool has the same name as the provider's own tool".to_owned()));
        search = None;
    }
    let tool = |tool: meerkat_core::ToolDef| {
        let mut json = json!({ "name": tool.name });
        if !tool.description.is_empty() {
            json["description"] = tool.description.into();
        }
        json["input_schema"] = tool.input_schema;
        json
    };
    let mut tools: Vec<_> = tools.into_iter().map(tool).chain(search).collect();
    if let Some(last) = tools.last_mut() {
        *last = cached(last.take());
    }
    (tools, left_out)
}

fn search_tool(search: Option<Value>) -> Option<Value> {
    let Some(Value::Object(mut tool)) = search else { return None };
    tool.retain(|_, value| !value.is_null());
    tool.entry("type").or_insert_with(|| "web_search_20250305".into());
    tool.entry("name").or_insert_with(|| "web_search".into());
    Some(Value::Object(tool))
}

/// Reads the thinking options.
fn thinking(params: &mut Map<String, Value>) -> Option<Value> {
    let tokens = params.shift_remove("thinking_budget").and_then(|budget| budget.as_u64());
    let mut thinking = match params.shift_remove("thinking") {
        Some(Value::Object(thinking)) => thinking,
        Some(Value::String(mode)) => Map::from_iter([("type".to_owned(), Value::String(mode))]),
        Some(Value::Bool(true)) => Map::new(),
        Some(Value::Bool(false)) => return Some(json!({ "type": "disabled" })),
        _ => Map::from_iter([("budget_tokens".to_owned(), tokens.filter(|tokens| *tokens > 0)?.into())]),
    };
    if let (Some(tokens), false) = (tokens, thinking.contains_key("budget_tokens")) {
        thinking.insert("budget_tokens".to_owned(), tokens.into());
    }
    let own = thinking.get("budget_tokens").and_then(Value::as_u64);
    let mode = if own.is_some() { "enabled" } else { "adaptive" };
    thinking.entry("type").or_insert_with(|| mode.into());
    if thinking.get("type").and_then(Value::as_str) == Some("enabled") {
        thinking.insert("budget_tokens".to_owned(), own.unwrap_or(MIN_BUDGET).max(MIN_BUDGET).into());
    } else {
        thinking.shift_remove("budget_tokens");
    }
    Some(Value::Object(thinking))
}

fn is_on(thinking: Option<&Value>) -> bool {
    thinking.and_then(|thinking| thinking.get("type")).is_some_and(|mode| mode != "disabled")
}

fn budget(thinking: Option<&Value>) -> Option<u64> {
    thinking?.get("budget_tokens").and_then(Value::as_u64)
}

/// Returns the output token limit; thinking counts toward it, and must leave room for the answer.
fn limit(
    info: &ModelInfo,
    request: &ModelRequest,
    params: &mut Map<String, Value>,
    thinking: &mut Option<Value>,
) -> u64 {
    let cap = info.max_output_tokens.map_or(u64::from(u32::MAX), u64::from).max(1);
    let own = params.shift_remove("max_tokens").and_then(|tokens| tokens.as_u64());
    let requested = own.unwrap_or_else(|| request.max_tokens.into()).clamp(1, cap);
    let Some(budget) = budget(thinking.as_ref()).filter(|budget| *budget >= requested) else {
        return requested;
    };
    let raised = budget.saturating_add(requested).min(cap);
    let room = budget.min(raised - 1);
    if room < MIN_BUDGET {
        *thinking = None;
        return requested;
    }
    if let Some(thinking) = thinking {
        thinking["budget_tokens"] = room.into();
    }
    raised
}

/// Reads the sampling parameters, if the model supports them.
fn sample(params: &mut Map<String, Value>, request: &ModelRequest, sampling: Sampling) -> Map<String, Value> {
    let own = ["temperature", "top_p", "top_k"].map(|key| (key, params.shift_remove(key)));
    if sampling == Sampling::Rejected {
        return Map::new();
    }
    let own =
        own.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value.filter(Value::is_number)?)));
    let mut sample: Map<_, _> = own.collect();
    let requested = request.temperature.and_then(number);
    // Newer models reject the two together.
    if let (Some(temperature), false) = (requested, sample.contains_key("top_p")) {
        sample.entry("temperature").or_insert(temperature);
    }
    sample
}

/// Converts a temperature through its decimal text, to avoid rounding artifacts, and clamps it to the allowed
/// range.
fn number(temperature: f32) -> Option<Value> {
    let decimal = temperature.clamp(0.0, 1.0).to_string().parse().ok()?;
    Number::from_f64(decimal).map(Value::Number)
}

fn output(params: &mut Map<String, Value>, request: &ModelRequest) -> Option<Value> {
    let mut output = match params.shift_remove("output_config") {
        Some(Value::Object(output)) => output,
        _ => Map::new(),
    };
    if let Some(effort @ Value::String(_)) = params.shift_remove("effort") {
        output.insert("effort".to_owned(), effort);
    }
    if let Some(requested) = &request.output_schema {
        let schema = schema::output(&requested.schema, Dialect::Anthropic, requested.strict);
        output.insert("format".to_owned(), json!({ "type": "json_schema", "schema": schema }));
    }
    (!output.is_empty()).then_some(Value::Object(output))
}

/// Reads the options for context management on the provider's side.
fn context(params: &mut Map<String, Value>) -> Option<Value> {
    let mut context = match params.shift_remove("context_management") {
        Some(Value::Object(context)) => context,
        _ => Map::new(),
    };
    let edits = match params.shift_remove("compaction") {
        Some(Value::Array(edits)) => edits,
        Some(Value::Object(mut edit)) => {
            edit.entry("type").or_insert_with(|| COMPACT.into());
            vec![Value::Object(edit)]
        }
        Some(Value::Bool(true) | Value::String(_)) => vec![json!({ "type": COMPACT })],
        _ => Vec::new(),
    };
    if !edits.is_empty() {
        let all = context.entry("edits").or_insert_with(|| json!([]));
        if let Value::Array(all) = all {
            all.extend(edits);
        }
    }
    (!context.is_empty()).then_some(Value::Object(context))
}
