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
fn openai_gets_the_schema_as_it_is_unless_it_is_strict() {
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
fn gemini_gets_only_keywords_it_knows() {
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
fn warnings_name_what_is_left_out() {
    let left_out = |provider: Provider, path: &str, key: &str| SchemaWarning {
        provider,
        path: path.to_owned(),
        message: format!("`{key}` is left out for {provider}; the answer is judged by it all the same"),
    };
    let gemini = [left_out(Provider::Gemini, "/properties/name/minLength", "minLength")];
    assert_eq!(schema_warnings(Provider::Gemini, &author()), gemini);
    let anthropic = [
        left_out(Provider::Anthropic, "/properties/name/minLength", "minLength"),
        left_out(Provider::Anthropic, "/properties/minimum/minimum", "minimum"),
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
fn strict_schemas_are_put_together_where_parts_must_hold_together() {
    let wanted = json!({
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
    let sent = output(&wanted, Dialect::OpenAi, true);
    assert_eq!(sent["properties"]["both"], both);
    assert_eq!(sent["properties"]["kind"], json!({ "anyOf": [{ "const": "a" }, { "const": "b" }] }));
    assert_eq!(output(&wanted, Dialect::OpenAi, false), wanted);
}

#[test]
fn a_strict_schema_that_is_part_of_itself_has_an_end() {
    let endless = json!({ "allOf": [{ "$ref": "#" }, { "$ref": "#" }, { "type": "object", "title": "a" }] });
    let expected = json!({ "type": "object", "title": "a", "additionalProperties": false });
    assert_eq!(output(&endless, Dialect::OpenAi, true), expected);
}
