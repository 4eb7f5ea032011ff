//! Descriptors of the functions and trigger types, as listed to workers.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

/// Trigger type that fires after a skill is registered or removed.
pub const SKILLS_ON_CHANGE: &str = "skills::on-change";
/// Trigger type that fires after a prompt is registered or removed.
pub const PROMPTS_ON_CHANGE: &str = "prompts::on-change";

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
    [
        Descriptor {
            id: "skills::register",
            description: "Register a markdown skill so it appears as iii://{id} in resources/list.",
            request_format: Shape::new("RegisterSkillInput")
                .with(
                    "id",
                    described_text("Unique skill id (lowercase ASCII, kebab/underscore, max 64 chars)."),
                )
                .with("skill", described_text("Markdown body served at iii://{id}."))
                .done(),
            response_format: Shape::new("RegisterSkillOutput")
                .with("id", text())
                .with("registered_at", text())
                .done(),
        },
        Descriptor {
            id: "skills::unregister",
            description: "Remove a registered skill by id.",
            request_format: Shape::new("UnregisterSkillInput").with("id", text()).done(),
            response_format: Shape::new("UnregisterSkillOutput")
                .with("id", text())
                .with("removed", json!({ "type": "boolean" }))
                .done(),
        },
        Descriptor {
            id: "skills::list",
            description: "List registered skills (id, body length, registered_at) without bodies.",
            request_format: Shape::new("ListSkillsInput").done(),
            response_format: Shape::new("ListSkillsOutput")
                .with("skills", array_of("SkillEntry"))
                .defining(
                    "SkillEntry",
                    Part::default().with("bytes", uint()).with("id", text()).with("registered_at", text()),
                )
                .done(),
        },
        Descriptor {
            id: "skills::resources-list",
            description: "Internal: returns the MCP resources/list envelope with the iii://skills index + one iii://{id} entry per registered skill.",
            request_format: Shape::new("EmptyInput").done(),
            response_format: any(),
        },
        Descriptor {
            id: "skills::resources-read",
            description: "Internal: resolves an iii:// URI and returns the MCP resources/read contents envelope.",
            request_format: Shape::new("ReadResourceInput").with("uri", text()).done(),
            response_format: any(),
        },
        Descriptor {
            id: "skills::resources-templates",
            description: "Internal: returns the MCP resources/templates/list envelope.",
            request_format: Shape::new("EmptyInput").done(),
            response_format: any(),
        },
    ]
}

fn prompts() -> [Descriptor; 5] {
    [
        Descriptor {
            id: "prompts::register",
            description: "Register a slash-command prompt; clients call prompts/get to render it.",
            request_format: register_prompt(),
            response_format: Shape::new("RegisterPromptOutput")
                .with("name", text())
                .with("registered_at", text())
                .done(),
        },
        Descriptor {
            id: "prompts::unregister",
            description: "Remove a registered prompt by name.",
            request_format: Shape::new("UnregisterPromptInput").with("name", text()).done(),
            response_format: Shape::new("UnregisterPromptOutput")
                .with("name", text())
                .with("removed", json!({ "type": "boolean" }))
                .done(),
        },
        Descriptor {
            id: "prompts::list",
            description: "List registered prompts (name, function_id, arg count, registered_at).",
            request_format: Shape::new("ListPromptsInput").done(),
            response_format: Shape::new("ListPromptsOutput")
                .with("prompts", array_of("PromptEntry"))
                .defining(
                    "PromptEntry",
                    Part::default()
                        .with("arguments", uint())
                        .with("function_id", text())
                        .with("name", text())
                        .with("registered_at", text()),
                )
                .done(),
        },
        Descriptor {
            id: "prompts::mcp-list",
            description: "Internal: returns the MCP prompts/list envelope (full arguments schema for each registered prompt).",
            request_format: Shape::new("EmptyInput").done(),
            response_format: any(),
        },
        Descriptor {
            id: "prompts::mcp-get",
            description: "Internal: dispatches a registered prompt handler and normalizes the result for MCP prompts/get.",
            request_format: Shape::new("PromptGetInput")
                .with("name", text())
                .with_optional("arguments", json!({ "default": null }))
                .done(),
            response_format: any(),
        },
    ]
}

fn register_prompt() -> Value {
    let argument = Part::default()
        .with_optional("description", json!({ "type": ["string", "null"] }))
        .with("name", text())
        .with_optional("required", json!({ "default": false, "type": "boolean" }));
    let mut arguments = array_of("PromptArgument");
    arguments["default"] = json!([]);
    Shape::new("RegisterPromptInput")
        .with("description", described_text("Free-text description shown in the client's prompt picker."))
        .with(
            "function_id",
            described_text("Handler function called on prompts/get with the supplied arguments."),
        )
        .with("name", described_text("Unique prompt name (lowercase ASCII, kebab/underscore, max 64 chars)."))
        .with_optional("arguments", arguments)
        .defining("PromptArgument", argument)
        .done()
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn described_text(description: &str) -> Value {
    json!({ "description": description, "type": "string" })
}

fn uint() -> Value {
    json!({ "format": "uint", "minimum": 0, "type": "integer" })
}

fn array_of(definition: &str) -> Value {
    json!({ "items": { "$ref": format!("#/definitions/{definition}") }, "type": "array" })
}

fn any() -> Value {
    json!({ "$schema": "http://json-schema.org/draft-07/schema#", "title": "AnyValue" })
}

/// Schema of an object.
#[derive(Default)]
struct Part {
    properties: Map<String, Value>,
    required: Vec<Value>,
}

impl Part {
    fn with(mut self, name: &str, schema: Value) -> Self {
        self.required.push(name.into());
        self.with_optional(name, schema)
    }

    fn with_optional(mut self, name: &str, schema: Value) -> Self {
        self.properties.insert(name.to_owned(), schema);
        self
    }

    /// Adds its properties to a schema; empty keywords are omitted.
    fn onto(self, mut schema: Map<String, Value>) -> Map<String, Value> {
        if !self.properties.is_empty() {
            schema.insert("properties".to_owned(), self.properties.into());
        }
        if !self.required.is_empty() {
            schema.insert("required".to_owned(), self.required.into());
        }
        schema.insert("type".to_owned(), "object".into());
        schema
    }
}

/// Top-level schema of an object.
struct Shape {
    title: &'static str,
    definitions: Map<String, Value>,
    part: Part,
}

impl Shape {
    fn new(title: &'static str) -> Self {
        Self { title, definitions: Map::new(), part: Part::default() }
    }

    fn with(mut self, name: &str, schema: Value) -> Self {
        self.part = self.part.with(name, schema);
        self
    }

    fn with_optional(mut self, name: &str, schema: Value) -> Self {
        self.part = self.part.with_optional(name, schema);
        self
    }

    fn defining(mut self, name: &str, part: Part) -> Self {
        self.definitions.insert(name.to_owned(), part.onto(Map::new()).into());
        self
    }

    fn done(self) -> Value {
        let mut schema = Map::new();
        schema.insert("$schema".to_owned(), "http://json-schema.org/draft-07/schema#".into());
        schema.insert("title".to_owned(), self.title.into());
        if !self.definitions.is_empty() {
            schema.insert("definitions".to_owned(), self.definitions.into());
        }
        self.part.onto(schema).into()
    }
}
