//! The request body.

use meerkat_core::{ModelInfo, ModelRequest, OutputSchema, Provider, ToolDef};
use serde_json::{Map, Value, json};

use super::messages;
use crate::schema::{self, Dialect};
use crate::wire::{Body, is_reserved, object, plain_name};

/// Maximum length of a name.
pub(super) const MAX_NAME: usize = 64;
const MAX_TOKENS: &str = "max_tokens";
const MAX_COMPLETION_TOKENS: &str = "max_completion_tokens";

/// Builds the body of a streaming request.
pub(super) fn body(remote_model: &str, info: &ModelInfo, request: &ModelRequest) -> Body {
    let (tools, left_out) = schema::sanitize(&request.tools, Dialect::OpenAi);
    let limit = request.max_tokens.min(info.max_output_tokens.unwrap_or(u32::MAX)).max(1);
    let mut body = object([
        ("model", Some(json!(remote_model))),
        ("messages", Some(messages::messages(info, request))),
        ("tools", (!tools.is_empty()).then(|| tools.iter().map(function).collect())),
        ("stream", Some(json!(true))),
        ("stream_options", Some(json!({ "include_usage": true }))),
        (limit_key(info), Some(json!(limit))),
        ("temperature", temperature(info, request)),
        ("response_format", request.output_schema.as_deref().map(format)),
    ]);
    if let Some(Value::Object(params)) = request.provider_params.as_deref() {
        merge(&mut body, params, info);
    }
    Body { json: Value::Object(body), left_out }
}

/// Self-hosted servers support the old name best; OpenAI requires the new one.
const fn limit_key(info: &ModelInfo) -> &'static str {
    match info.provider {
        Provider::SelfHosted => MAX_TOKENS,
        _ => MAX_COMPLETION_TOKENS,
    }
}

fn function(tool: &ToolDef) -> Value {
    let mut function = json!({ "name": tool.name });
    if !tool.description.trim().is_empty() {
        function["description"] = json!(tool.description);
    }
    function["parameters"] = tool.input_schema.clone();
    json!({ "type": "function", "function": function })
}

/// Returns the temperature as its author wrote it: 0.7, not the nearest double to the nearest float.
fn temperature(info: &ModelInfo, request: &ModelRequest) -> Option<Value> {
    let temperature = request.temperature.filter(|_| info.profile.supports_temperature)?;
    let exact: f64 = temperature.to_string().parse().ok()?;
    exact.is_finite().then(|| json!(exact))
}

fn format(output: &OutputSchema) -> Value {
    json!({
        "type": "json_schema",
        "json_schema": {
            "name": plain_name(output.name.as_deref().unwrap_or_default(), MAX_NAME, "output"),
            "schema": schema::output(&output.schema, Dialect::OpenAi, output.strict),
            "strict": output.strict,
        },
    })
}

/// Adds the caller's parameters unchanged; `null` removes a default.
fn merge(body: &mut Map<String, Value>, params: &Map<String, Value>, info: &ModelInfo) {
    for (key, value) in params {
        match key.as_str() {
            key if is_reserved(info.provider, key) => {}
            "web_search" => search(body, value, info),
            "google_search" => {}
            "temperature" if !info.profile.supports_temperature => {}
            MAX_TOKENS | MAX_COMPLETION_TOKENS => limit(body, key, value),
            "max_output_tokens" => limit(body, limit_key(info), value),
            key if value.is_null() => {
                body.shift_remove(key);
            }
            key => {
                body.insert(key.to_owned(), value.clone());
            }
        }
    }
}

/// Sets the output limit under a single key; servers reject two.
fn limit(body: &mut Map<String, Value>, key: &str, value: &Value) {
    body.shift_remove(MAX_TOKENS);
    body.shift_remove(MAX_COMPLETION_TOKENS);
    if !value.is_null() {
        body.insert(key.to_owned(), value.clone());
    }
}

/// Enables web search in this format, if the model supports it.
fn search(body: &mut Map<String, Value>, value: &Value, info: &ModelInfo) {
    let options = match value {
        Value::Object(tool) => tool.iter().filter(|(key, _)| !matches!(key.as_str(), "type" | "name")),
        Value::Bool(true) => return search(body, &json!({}), info),
        _ => return,
    };
    if info.profile.supports_web_search {
        let options: Map<_, _> = options.map(|(key, value)| (key.clone(), value.clone())).collect();
        body.insert("web_search_options".to_owned(), Value::Object(options));
    }
}
