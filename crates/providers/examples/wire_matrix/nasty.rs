//! Tools and output schemas as people write them and no provider accepts them.

use std::sync::Arc;

use meerkat_core::ToolDef;
use serde_json::{Value, json};

use crate::words::tool;

pub(crate) fn tools() -> Arc<[ToolDef]> {
    let mut tools: Vec<_> = schemas().into_iter().map(|(name, schema)| tool(name, schema)).collect();
    tools.extend(names().into_iter().map(|name| tool(&name, plain())));
    tools.push(tool("plain", plain()));
    tools.push(ToolDef { description: String::new(), ..tool("wordless", plain()) });
    tools.push(ToolDef { description: "long ".repeat(5_000), ..tool("wordy", plain()) });
    tools.into()
}

fn plain() -> Value {
    json!({ "type": "object", "properties": { "path": { "type": "string" } }, "required": ["path"] })
}

fn names() -> Vec<String> {
    let unusual = ["", "plain", "with.dot", "with space", "9lives", "-dash", "naïve", "web_search"];
    unusual.into_iter().map(str::to_owned).chain(["n".repeat(64), "n".repeat(65)]).collect()
}

fn schemas() -> Vec<(&'static str, Value)> {
    let mut all = shapes();
    all.extend(keywords());
    all
}

fn shapes() -> Vec<(&'static str, Value)> {
    vec![
        ("nothing", Value::Null),
        ("anything", json!(true)),
        ("impossible", json!(false)),
        ("empty", json!({})),
        ("listed", json!([])),
        ("text_only", json!({ "type": "string" })),
        (
            "choice",
            json!({ "anyOf": [plain(), { "type": "object", "properties": { "url": { "type": "string" } } }] }),
        ),
        (
            "one_of",
            json!({ "type": "object", "oneOf": [{ "required": ["a"] }, { "required": ["b"] }],
            "properties": { "a": { "type": "integer" }, "b": { "type": "integer" } } }),
        ),
        (
            "all_of",
            json!({ "allOf": [plain(), { "properties": { "depth": { "type": "integer", "minimum": 0 } } }] }),
        ),
        (
            "tree",
            json!({ "$ref": "#/$defs/Node", "$defs": { "Node": { "type": "object", "properties": {
            "value": { "type": "string" }, "children": { "type": "array", "items": { "$ref": "#/$defs/Node" } } } } } }),
        ),
        (
            "reference",
            json!({ "type": "object", "properties": { "where": { "$ref": "#/definitions/Place" } },
            "definitions": { "Place": { "type": "object", "properties": { "x": { "type": "number" } } } } }),
        ),
        (
            "far_away",
            json!({ "type": "object", "properties": { "a": { "$ref": "https://example.com/a.json" } } }),
        ),
        ("to_nowhere", json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/Missing" } } })),
        ("open_map", json!({ "type": "object", "additionalProperties": { "type": "string" } })),
        ("wrong_types", json!({ "type": "object", "properties": [], "required": "path", "title": 5 })),
        (
            "odd_parameters",
            json!({ "type": "object", "properties": {
            "a b": { "type": "string" }, "$x": { "type": "string" }, "ok": { "type": "string" } } }),
        ),
        (
            "odd_required",
            json!({ "type": "object", "properties": { "a b": { "type": "string" } }, "required": ["a b"] }),
        ),
        (
            "ghost_required",
            json!({ "type": "object", "properties": { "a": {} }, "required": ["a", "ghost"] }),
        ),
    ]
}

fn keywords() -> Vec<(&'static str, Value)> {
    let properties = json!({
        "pattern": { "type": "string", "pattern": "^(?=a)[a-z]+$", "minLength": 1, "maxLength": 9, "format": "uuid" },
        "numbers": { "type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": true, "multipleOf": 5 },
        "mixed": { "enum": ["a", 1, null, true] },
        "no_choice": { "enum": [] },
        "constant": { "const": 5 },
        "types": { "type": ["string", "integer", "null"] },
        "list": { "type": "array" },
        "tuple": { "type": "array", "items": [{ "type": "string" }, { "type": "integer" }], "additionalItems": false },
        "prefix": { "type": "array", "prefixItems": [{ "type": "string" }], "items": false, "uniqueItems": true },
        "conditional": { "if": { "type": "string" }, "then": { "minLength": 3 }, "else": { "type": "integer" } },
        "negative": { "not": { "type": "null" } },
        "never": false,
        "always": true,
        "nullable": { "type": "string", "nullable": true, "default": null, "examples": [1], "deprecated": true },
        "map": { "type": "object", "patternProperties": { "^x": { "type": "string" } }, "minProperties": 1 },
        "nested": { "anyOf": [{ "type": "null" }, { "oneOf": [{ "type": "string" }, { "type": "object" }] }] },
        "bytes": { "type": "string", "contentEncoding": "base64", "x-own": { "a": 1 } },
        "unknown": { "type": "file" },
        "blank_object": { "type": "object" },
    });
    let dependent = json!({ "list": ["tuple"] });
    vec![(
        "keywords",
        json!({
            "$schema": "http://json-schema.org/draft-07/schema#", "$id": "https://example.com/tool", "type": "object",
            "properties": properties, "required": ["pattern"], "dependentRequired": dependent,
            "additionalProperties": false, "$comment": "none", "minProperties": 1, "examples": [{}],
        }),
    )]
}

/// An output schema in which every provider rejects something.
pub(crate) fn output() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "score": { "type": "number", "minimum": 0, "maximum": 1, "multipleOf": 0.5 },
            "name": { "type": "string", "minLength": 1, "pattern": "^a", "format": "email" },
            "tags": { "type": "array", "items": { "type": "string" }, "minItems": 2, "maxItems": 3, "uniqueItems": true },
            "kind": { "oneOf": [{ "const": "a" }, { "const": "b" }] },
            "both": { "allOf": [{ "$ref": "#/$defs/Part" }, { "type": "object", "properties": { "y": { "type": "integer" } } }] },
            "map": { "type": "object", "additionalProperties": { "type": "integer" } },
            "part": { "$ref": "#/$defs/Part" },
            "maybe": { "type": ["string", "null"] },
            "rest": true,
        },
        "required": ["score", "name"],
        "not": { "required": ["nothing"] },
        "if": { "properties": { "kind": { "const": "a" } } },
        "then": { "required": ["tags"] },
        "patternProperties": { "^x-": {} },
        "$defs": { "Part": { "type": "object", "properties": { "x": { "type": "integer" }, "next": { "$ref": "#/$defs/Part" } } } },
    })
}
