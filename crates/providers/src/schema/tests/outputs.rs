use meerkat_core::{Provider, SchemaWarning};
use serde_json::{Value, json};

use crate::schema::{Dialect, output, schema_warnings};

fn author() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "name": { "type": "string", "minLength": 1 },
            "minimum": { "type": "integer", "minimum": 0 },
            "kind": { "enum": ["a", "b"], "type": "string" },
            "next": { "$ref": "#/definitions/Next" },
        },
        "required": ["name"],
        "definitions": { "Next": { "type": "object", "properties": { "id": { "type": "string" } } } },
    })
}

#[test]
fn anthropic_gets_closed_objects_without_bounds() {
    let expected = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string" },
            "minimum": { "type": "integer" },
            "kind": { "enum": ["a", "b"], "type": "string" },
            "next": { "$ref": "#/definitions/Next" },
        },
        "required": ["name"],
        "definitions": {
            "Next": { "type": "object", "properties": { "id": { "type": "string" } }, "additionalProperties": false },
        },
        "additionalProperties": false,
    });
    assert_eq!(output(&author(), Dialect::Anthropic, false), expected);
}

#[test]
fn openai_schema_is_unchanged_unless_strict() {
    assert_eq!(output(&author(), Dialect::OpenAi, false), author());
    let expected = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "minLength": 1 },
            "minimum": { "type": ["integer", "null"], "minimum": 0 },
            "kind": { "enum": ["a", "b", null], "type": ["string", "null"] },
            "next": { "anyOf": [{ "$ref": "#/definitions/Next" }, { "type": "null" }] },
        },
        "required": ["name", "minimum", "kind", "next"],
        "definitions": {
            "Next": {
                "type": "object",
                "properties": { "id": { "type": ["string", "null"] } },
                "additionalProperties": false,
                "required": ["id"],
            },
        },
        "additionalProperties": false,
    });
    assert_eq!(output(&author(), Dialect::OpenAi, true), expected);
}

#[test]
fn gemini_gets_only_supported_keywords() {
    let expected = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string" },
            "minimum": { "type": "integer", "minimum": 0 },
            "kind": { "enum": ["a", "b"], "type": "string" },
            "next": { "$ref": "#/$defs/Next" },
        },
        "required": ["name"],
        "$defs": { "Next": { "type": "object", "properties": { "id": { "type": "string" } } } },
    });
    assert_eq!(output(&author(), Dialect::Gemini, true), expected);
}

#[test]
fn warnings_name_removed_keywords() {
    let removed = |provider: Provider, path: &str, key: &str| SchemaWarning {
        provider,
        path: path.to_owned(),
        message: format!("`{key}` is not sent to {provider}; the answer is still validated against it"),
    };
    let gemini = [removed(Provider::Gemini, "/properties/name/minLength", "minLength")];
    assert_eq!(schema_warnings(Provider::Gemini, &author()), gemini);
    let anthropic = [
        removed(Provider::Anthropic, "/properties/name/minLength", "minLength"),
        removed(Provider::Anthropic, "/properties/minimum/minimum", "minimum"),
    ];
    assert_eq!(schema_warnings(Provider::Anthropic, &author()), anthropic);
    for provider in [Provider::OpenAi, Provider::SelfHosted, Provider::Other] {
        assert_eq!(schema_warnings(provider, &author()), []);
    }
    let open =
        schema_warnings(Provider::Anthropic, &json!({ "properties": { "a/b": { "type": "object" } } }));
    assert_eq!(open.len(), 1);
    assert_eq!(open[0].path, "/properties/a~1b/additionalProperties");
}

#[test]
fn strict_schemas_are_merged() {
    let schema = json!({
        "type": "object",
        "properties": {
            "both": { "allOf": [{ "$ref": "#/$defs/A" }, { "properties": { "b": { "type": "string" } }, "required": ["b"] }] },
            "kind": { "oneOf": [{ "const": "a" }, { "const": "b" }] },
        },
        "required": ["both", "kind"],
        "$defs": { "A": { "type": "object", "properties": { "a": { "type": "integer" } }, "required": ["a"] } },
    });
    let both = json!({
        "type": "object",
        "properties": { "a": { "type": "integer" }, "b": { "type": "string" } },
        "required": ["a", "b"],
        "additionalProperties": false,
    });
    let sent = output(&schema, Dialect::OpenAi, true);
    assert_eq!(sent["properties"]["both"], both);
    assert_eq!(sent["properties"]["kind"], json!({ "anyOf": [{ "const": "a" }, { "const": "b" }] }));
    assert_eq!(output(&schema, Dialect::OpenAi, false), schema);
}

#[test]
fn recursive_strict_schema_terminates() {
    let endless = json!({ "allOf": [{ "$ref": "#" }, { "$ref": "#" }, { "type": "object", "title": "a" }] });
    let expected = json!({ "type": "object", "title": "a", "additionalProperties": false });
    assert_eq!(output(&endless, Dialect::OpenAi, true), expected);
}
