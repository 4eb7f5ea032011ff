//! Tools, resources, and prompts that the suite requests by name.

use std::sync::Arc;

use meerkat_mcp_server::protocol::Request;
use rmcp::ErrorData;
use rmcp::model::{
    GetPromptRequestParams, GetPromptResponse, GetPromptResult, JsonObject, Prompt, PromptArgument,
    PromptMessage, ReadResourceResponse, ReadResourceResult, Resource, ResourceContents, ResourceTemplate,
    Role, Tool,
};
use serde_json::{Value, json};

use crate::content::PNG;
use crate::rounds;

/// Names of tools and the properties of their arguments.
const TOOLS: [(&str, &[(&str, &str)]); 37] = [
    ("test_simple_text", &[]),
    ("test_image_content", &[]),
    ("test_audio_content", &[]),
    ("test_embedded_resource", &[]),
    ("test_multiple_content_types", &[]),
    ("test_tool_with_logging", &[]),
    ("test_logging_tool", &[]),
    ("test_error_handling", &[]),
    ("test_tool_with_progress", &[]),
    ("test_reconnection", &[]),
    ("test_missing_capability", &[]),
    ("test_trigger_tool_change", &[]),
    ("test_trigger_prompt_change", &[]),
    ("test_sampling", &[("prompt", "string")]),
    ("test_elicitation", &[("message", "string")]),
    ("test_elicitation_sep1034_defaults", &[]),
    ("test_elicitation_sep1330_enums", &[]),
    ("test_streaming_elicitation", &[]),
    ("test_input_required_result_elicitation", &[]),
    ("test_input_required_result_sampling", &[]),
    ("test_input_required_result_list_roots", &[]),
    ("test_input_required_result_request_state", &[]),
    ("test_input_required_result_multiple_inputs", &[]),
    ("test_input_required_result_multi_round", &[]),
    ("test_input_required_result_tampered_state", &[]),
    ("test_input_required_result_capabilities", &[]),
    ("greet", &[("name", "string")]),
    ("slow_compute", &[("seconds", "number"), ("label", "string")]),
    ("failing_job", &[]),
    ("protocol_error_job", &[]),
    ("confirm_delete", &[("filename", "string")]),
    ("multi_input", &[]),
    ("test_tool_with_task", &[]),
    ("test_custom_header", &[]),
    ("json_schema_2020_12_tool", &[]),
    ("test_long_wait", &[("milliseconds", "number")]),
    ("test_echo", &[("text", "string")]),
];

pub(crate) fn tools() -> Vec<Tool> {
    TOOLS.iter().map(|(name, properties)| tool(name, properties)).collect()
}

fn tool(name: &'static str, properties: &[(&str, &str)]) -> Tool {
    let schema = match name {
        "test_custom_header" => json!({
            "type": "object",
            "properties": { "value": { "type": "string", "x-mcp-header": "Value" } },
            "required": ["value"],
        }),
        "json_schema_2020_12_tool" => rich_schema(),
        _ => {
            let property = |(name, kind): &(&str, &str)| ((*name).to_owned(), json!({ "type": kind }));
            let properties: JsonObject = properties.iter().map(property).collect();
            json!({ "type": "object", "properties": properties })
        }
    };
    let description = format!("The fixture {name}.");
    Tool::new(name, description, Arc::new(object(schema)))
}

/// Returns a schema whose every keyword must reach the client unchanged.
fn rich_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
            },
        },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" },
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    })
}

pub(crate) fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(object) => object,
        _ => JsonObject::new(),
    }
}

pub(crate) fn resources() -> Vec<Resource> {
    vec![
        Resource::new("test://static-text", "static-text")
            .with_description("Text.")
            .with_mime_type("text/plain"),
        Resource::new("test://static-binary", "static-binary")
            .with_description("A dot.")
            .with_mime_type("image/png"),
        Resource::new("test://watched-resource", "watched-resource")
            .with_description("It may change.")
            .with_mime_type("text/plain"),
    ]
}

pub(crate) fn templates() -> Vec<ResourceTemplate> {
    let template = ResourceTemplate::new("test://template/{id}/data", "template");
    vec![template.with_description("Data by id.").with_mime_type("application/json")]
}

pub(crate) fn read(uri: &str) -> Result<ReadResourceResponse, ErrorData> {
    let by_id = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
    let contents = match (uri, by_id) {
        (_, Some(id)) => {
            ResourceContents::text(json!({ "id": id }).to_string(), uri).with_mime_type("application/json")
        }
        ("test://static-text", _) => ResourceContents::text("This is text.", uri),
        ("test://static-binary", _) => ResourceContents::blob(PNG, uri).with_mime_type("image/png"),
        ("test://watched-resource", _) => ResourceContents::text("Watched.", uri),
        _ => {
            let message = format!("unknown resource `{uri}`");
            return Err(ErrorData::resource_not_found(message, Some(json!({ "uri": uri }))));
        }
    };
    Ok(ReadResourceResult::new(vec![contents]).into())
}

pub(crate) fn prompts() -> Vec<Prompt> {
    let argument = |name: &str| PromptArgument::new(name).with_description("Anything.").with_required(true);
    vec![
        Prompt::new("test_simple_prompt", Some("Without arguments."), None),
        Prompt::new(
            "test_prompt_with_arguments",
            Some("With two arguments."),
            Some(vec![argument("arg1"), argument("arg2")]),
        ),
        Prompt::new(
            "test_prompt_with_embedded_resource",
            Some("With a resource."),
            Some(vec![argument("resourceUri")]),
        ),
        Prompt::new("test_prompt_with_image", Some("With an image."), None),
        Prompt::new("test_input_required_result_prompt", Some("Asks first."), None),
    ]
}

pub(crate) fn prompt(
    get: &GetPromptRequestParams,
    request: &Request,
) -> Result<GetPromptResponse, ErrorData> {
    let argument = |name: &str| {
        let found = get.arguments.as_ref().and_then(|arguments| arguments.get(name)).and_then(Value::as_str);
        found.ok_or_else(|| ErrorData::invalid_params(format!("missing argument `{name}`"), None))
    };
    let messages = match get.name.as_str() {
        "test_simple_prompt" => vec![PromptMessage::new_text(Role::User, "This is a simple prompt.")],
        "test_prompt_with_arguments" => {
            let text = format!("arg1='{}', arg2='{}'", argument("arg1")?, argument("arg2")?);
            vec![PromptMessage::new_text(Role::User, text)]
        }
        "test_prompt_with_embedded_resource" => {
            let uri = argument("resourceUri")?.to_owned();
            let (mime, text) = (Some("text/plain".to_owned()), Some("Embedded.".to_owned()));
            vec![
                PromptMessage::new_resource(Role::User, uri, mime, text, None, None, None),
                PromptMessage::new_text(Role::User, "Look at this."),
            ]
        }
        "test_prompt_with_image" => {
            vec![
                PromptMessage::new(Role::User, rmcp::model::ContentBlock::image(PNG, "image/png")),
                PromptMessage::new_text(Role::User, "Look at this."),
            ]
        }
        _ => return rounds::prompt(get, request),
    };
    Ok(GetPromptResult::new(messages).into())
}
