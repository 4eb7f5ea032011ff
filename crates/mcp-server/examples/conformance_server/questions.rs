//! Tools that send requests to a client of an older revision while they run.

use meerkat_mcp_server::protocol::Request;
use rmcp::ErrorData;
use rmcp::model::{CallToolRequestParams, CallToolResponse, ServerRequest};
use serde_json::{Value, json};

use crate::content::text;

pub(crate) async fn call(
    call: CallToolRequestParams,
    request: &Request,
) -> Result<CallToolResponse, ErrorData> {
    let argument = |name: &str| {
        let found = call.arguments.as_ref().and_then(|arguments| arguments.get(name)).and_then(Value::as_str);
        found.unwrap_or("Hello?")
    };
    let question = match &*call.name {
        "test_sampling" => sampling(argument("prompt"), 100),
        "test_elicitation" => elicitation(
            argument("message"),
            json!({
                "username": { "type": "string", "description": "User's response" },
                "email": { "type": "string", "description": "User's email address" },
            }),
            &["username", "email"],
        ),
        "test_elicitation_sep1034_defaults" => elicitation("Please check these values.", defaults(), &[]),
        _ => elicitation("Please choose.", choices(), &[]),
    };
    let question: ServerRequest = serde_json::from_value(question)
        .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    let answer = request.ask(question).await?;
    let answer = serde_json::to_value(answer).unwrap_or_default();
    Ok(text(format!("The client answered: {answer}")).into())
}

pub(crate) fn sampling(prompt: &str, max_tokens: u32) -> Value {
    json!({
        "method": "sampling/createMessage",
        "params": {
            "messages": [{ "role": "user", "content": { "type": "text", "text": prompt } }],
            "maxTokens": max_tokens,
        },
    })
}

pub(crate) fn elicitation(message: &str, properties: Value, required: &[&str]) -> Value {
    let mut schema = json!({ "type": "object" });
    schema["properties"] = properties;
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    json!({
        "method": "elicitation/create",
        "params": { "mode": "form", "message": message, "requestedSchema": schema },
    })
}

fn defaults() -> Value {
    json!({
        "name": { "type": "string", "default": "John Doe" },
        "age": { "type": "integer", "default": 30 },
        "score": { "type": "number", "default": 95.5 },
        "status": { "type": "string", "enum": ["active", "inactive", "pending"], "default": "active" },
        "verified": { "type": "boolean", "default": true },
    })
}

fn choices() -> Value {
    let plain = ["option1", "option2", "option3"];
    let titled = json!([
        { "const": "value1", "title": "First Option" },
        { "const": "value2", "title": "Second Option" },
        { "const": "value3", "title": "Third Option" },
    ]);
    json!({
        "untitledSingle": { "type": "string", "enum": plain },
        "titledSingle": { "type": "string", "oneOf": titled },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": { "type": "array", "items": { "type": "string", "enum": plain } },
        "titledMulti": { "type": "array", "items": { "anyOf": titled } },
    })
}
