//! Descriptors of the functions and trigger types, as listed to workers.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

/// Trigger type that fires after a skill is registered or removed.
pub const SKILLS_ON_CHANGE: &str = "skills::on-change";
/// Trigger type that fires after a prompt is registered or removed.
pub const PROMPTS_ON_CHANGE: &str = "prompts::on-change";

const DRAFT: &str = "http://json-schema.org/draft-07/schema#";

/// Descriptor of a function.
#[derive(Debug, Clone, PartialEq)]
pub struct Descriptor {
    /// Id of the function.
    pub id: &'static str,
    /// Description of the function.
    pub description: &'static str,
    /// JSON Schema of its input.
    pub request_format: Value,
    /// JSON Schema of its output.
    pub response_format: Value,
}

/// A trigger type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TriggerType {
    /// Id of the trigger type.
    pub id: &'static str,
    /// Description of when it fires.
    pub description: &'static str,
}

/// Returns the trigger types.
#[must_use]
pub const fn trigger_types() -> [TriggerType; 2] {
    [
        TriggerType {
            id: SKILLS_ON_CHANGE,
            description: "Fires after any mutation of the skills registry (register / unregister).",
        },
        TriggerType {
            id: PROMPTS_ON_CHANGE,
            description: "Fires after any mutation of the prompts registry (register / unregister).",
        },
    ]
}

/// Returns the descriptors of all functions.
#[must_use]
pub fn functions() -> &'static [Descriptor] {
    static FUNCTIONS: LazyLock<Vec<Descriptor>> =
        LazyLock::new(|| skills().into_iter().chain(prompts()).collect());
    &FUNCTIONS
}

fn skills() -> [Descriptor; 6] {
    let entry = [("bytes", uint()), ("id", text()), ("registered_at", text())];
    [
        function(
            "skills::register",
            "Register a markdown skill so it appears as iii://{id} in resources/list.",
            register_skill(),
            schema("RegisterSkillOutput", [("id", text()), ("registered_at", text())]),
        ),
        function(
            "skills::unregister",
            "Remove a registered skill by id.",
            schema("UnregisterSkillInput", [("id", text())]),
            schema("UnregisterSkillOutput", [("id", text()), ("removed", flag())]),
        ),
        function(
            "skills::list",
            "List registered skills (id, body length, registered_at) without bodies.",
            schema("ListSkillsInput", []),
            defining(
                definition("SkillEntry", entry),
                "ListSkillsOutput",
                [("skills", array_of("SkillEntry"))],
            ),
        ),
        function(
            "skills::resources-list",
            "Internal: returns the MCP resources/list envelope with the iii://skills index + one iii://{id} entry per registered skill.",
            schema("EmptyInput", []),
            any(),
        ),
        function(
            "skills::resources-read",
            "Internal: resolves an iii:// URI and returns the MCP resources/read contents envelope.",
            schema("ReadResourceInput", [("uri", text())]),
            any(),
        ),
        function(
            "skills::resources-templates",
            "Internal: returns the MCP resources/templates/list envelope.",
            schema("EmptyInput", []),
            any(),
        ),
    ]
}

fn prompts() -> [Descriptor; 5] {
    let entry = [("arguments", uint()), ("function_id", text()), ("name", text()), ("registered_at", text())];
    [
        function(
            "prompts::register",
            "Register a slash-command prompt; clients call prompts/get to render it.",
            register_prompt(),
            schema("RegisterPromptOutput", [("name", text()), ("registered_at", text())]),
        ),
        function(
            "prompts::unregister",
            "Remove a registered prompt by name.",
            schema("UnregisterPromptInput", [("name", text())]),
            schema("UnregisterPromptOutput", [("name", text()), ("removed", flag())]),
        ),
        function(
            "prompts::list",
            "List registered prompts (name, function_id, arg count, registered_at).",
            schema("ListPromptsInput", []),
            defining(
                definition("PromptEntry", entry),
                "ListPromptsOutput",
                [("prompts", array_of("PromptEntry"))],
            ),
        ),
        function(
            "prompts::mcp-list",
            "Internal: returns the MCP prompts/list envelope (full arguments schema for each registered prompt).",
            schema("EmptyInput", []),
            any(),
        ),
        function(
            "prompts::mcp-get",
            "Internal: dispatches a registered prompt handler and normalizes the result for MCP prompts/get.",
            schema("PromptGetInput", [("name", text()), ("arguments?", json!({ "default": null }))]),
            any(),
        ),
    ]
}

fn register_skill() -> Value {
    let id = "Unique skill id (lowercase ASCII, kebab/underscore, max 64 chars).";
    let skill = "Markdown body served at iii://{id}.";
    schema("RegisterSkillInput", [("id", described_text(id)), ("skill", described_text(skill))])
}

fn register_prompt() -> Value {
    let argument = [
        ("description?", json!({ "type": ["string", "null"] })),
        ("name", text()),
        ("required?", json!({ "default": false, "type": "boolean" })),
    ];
    let mut arguments = array_of("PromptArgument");
    arguments["default"] = json!([]);
    let description = "Free-text description shown in the client's prompt picker.";
    let function = "Handler function called on prompts/get with the supplied arguments.";
    let name = "Unique prompt name (lowercase ASCII, kebab/underscore, max 64 chars).";
    let fields = [
        ("description", described_text(description)),
        ("function_id", described_text(function)),
        ("name", described_text(name)),
        ("arguments?", arguments),
    ];
    defining(definition("PromptArgument", argument), "RegisterPromptInput", fields)
}

const fn function(
    id: &'static str,
    description: &'static str,
    request_format: Value,
    response_format: Value,
) -> Descriptor {
    Descriptor { id, description, request_format, response_format }
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn described_text(description: &str) -> Value {
    json!({ "description": description, "type": "string" })
}

fn flag() -> Value {
    json!({ "type": "boolean" })
}

fn uint() -> Value {
    json!({ "format": "uint", "minimum": 0, "type": "integer" })
}

fn array_of(definition: &str) -> Value {
    json!({ "items": { "$ref": format!("#/definitions/{definition}") }, "type": "array" })
}

fn any() -> Value {
    json!({ "$schema": DRAFT, "title": "AnyValue" })
}

/// Returns the schema of a value that is an object with these fields; see [`object`].
fn schema<const N: usize>(title: &str, fields: [(&str, Value); N]) -> Value {
    defining(Map::new(), title, fields)
}

/// Returns a schema with the definitions that its fields refer to.
fn defining<const N: usize>(
    definitions: Map<String, Value>,
    title: &str,
    fields: [(&str, Value); N],
) -> Value {
    let mut schema = Map::new();
    schema.insert("$schema".to_owned(), DRAFT.into());
    schema.insert("title".to_owned(), title.into());
    if !definitions.is_empty() {
        schema.insert("definitions".to_owned(), definitions.into());
    }
    schema.extend(object(fields));
    schema.into()
}

/// Returns the keywords of an object with these fields; empty keywords are omitted. The names of optional fields end
/// with `?`.
fn object<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for (name, schema) in fields {
        if !name.ends_with('?') {
            required.push(name.into());
        }
        properties.insert(name.trim_end_matches('?').to_owned(), schema);
    }
    let keywords = [("properties", Value::Object(properties)), ("required", Value::Array(required))];
    let used = keywords.into_iter().filter(|(_, value)| *value != json!({}) && *value != json!([]));
    used.chain([("type", "object".into())]).map(|(name, value)| (name.to_owned(), value)).collect()
}

fn definition<const N: usize>(name: &str, fields: [(&str, Value); N]) -> Map<String, Value> {
    Map::from_iter([(name.to_owned(), object(fields).into())])
}
