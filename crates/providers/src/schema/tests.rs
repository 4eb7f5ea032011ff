mod checker;
mod outputs;
mod random;

use serde_json::json;

use super::*;

const DIALECTS: [Dialect; 3] = [Dialect::Anthropic, Dialect::OpenAi, Dialect::Gemini];

fn tool(name: &str, input_schema: Value) -> ToolDef {
    ToolDef { name: name.to_owned(), description: "d".to_owned(), input_schema }
}

fn repaired(schema: Value, dialect: Dialect) -> Value {
    let (mut accepted, left_out) = sanitize(&[tool("t", schema)], dialect);
    assert_eq!(left_out, []);
    let schema = accepted.remove(0).input_schema;
    checker::check(&schema, dialect).unwrap();
    schema
}

/// Returns the conversion of a schema used as the only, required parameter.
fn parameter(schema: Value, dialect: Dialect) -> Value {
    let mut parent = json!({ "type": "object", "properties": {}, "required": ["p"] });
    parent["properties"]["p"] = schema;
    repaired(parent, dialect)["properties"]["p"].take()
}

fn reasons(schema: Value, dialect: Dialect) -> Vec<String> {
    sanitize(&[tool("t", schema)], dialect).1.into_iter().map(|(_, reason)| reason).collect()
}

#[test]
fn top_level_is_one_object() {
    let cases = [
        (json!({}), json!({ "type": "object", "properties": {} })),
        (json!(null), json!({ "type": "object", "properties": {} })),
        (json!({ "type": ["object", "null"] }), json!({ "type": "object", "properties": {} })),
        (
            json!({ "properties": [1], "required": "a", "enum": [{}] }),
            json!({ "type": "object", "properties": {} }),
        ),
        (
            json!({ "$schema": "x", "$id": "y", "$comment": "z", "properties": { "$ref": { "type": "string" } } }),
            json!({ "type": "object", "properties": { "$ref": { "type": "string" } } }),
        ),
        (
            json!({ "oneOf": [
                { "properties": { "kind": { "const": "a" }, "x": { "type": "string" } }, "required": ["kind", "x"] },
                { "properties": { "kind": { "const": "b" }, "y": { "type": "integer" } }, "required": ["kind"] },
                { "type": "string" },
            ] }),
            json!({
                "type": "object",
                "properties": {
                    "kind": { "enum": ["a", "b"] }, "x": { "type": "string" }, "y": { "type": "integer" },
                },
                "required": ["kind"],
            }),
        ),
        (
            json!({
                "properties": { "a": { "type": "string" } }, "required": ["a"],
                "allOf": [{ "properties": { "b": { "type": "string" } }, "required": ["b"] }],
                "anyOf": [{ "required": ["a"] }, { "required": ["b"] }],
            }),
            json!({
                "type": "object",
                "properties": { "a": { "type": "string" }, "b": { "type": "string" } },
                "required": ["a", "b"],
            }),
        ),
    ];
    for (schema, expected) in cases {
        assert_eq!(repaired(schema, Dialect::OpenAi), expected);
    }
}

#[test]
fn references_are_followed_and_terminate() {
    let schema = json!({
        "type": "object",
        "properties": {
            "node": { "$ref": "#/$defs/Node", "description": "the first" },
            "far": { "$ref": "https://example.org/x", "title": "T" },
            "none": { "$ref": "#/$defs/Missing" },
            "odd%20name": { "$ref": "#/definitions/a~1b%20c" },
        },
        "$defs": { "Node": {
            "type": "object",
            "description": "a node",
            "properties": { "value": { "type": "string" }, "next": { "$ref": "#/$defs/Node" } },
        } },
        "definitions": { "a/b c": { "type": "integer" } },
    });
    let expected = json!({
        "type": "object",
        "properties": {
            "node": {
                "description": "the first",
                "type": "object",
                "properties": {
                    "value": { "type": "string" },
                    "next": { "type": "object", "description": "Again of the same shape as `Node`." },
                },
            },
            "far": { "title": "T" },
            "none": {},
            "odd%20name": { "type": "integer" },
        },
    });
    assert_eq!(repaired(schema, Dialect::OpenAi), expected);
}

#[test]
fn keywords_are_repaired_or_dropped() {
    let cases = [
        (json!({ "type": ["string", "null"] }), json!({ "type": ["string", "null"] })),
        (json!({ "type": "String" }), json!({ "type": "string" })),
        (json!({ "type": "any" }), json!({})),
        (json!({ "type": "string", "nullable": true }), json!({ "type": ["string", "null"] })),
        (json!({ "type": "array" }), json!({ "type": "array", "items": {} })),
        (json!({ "type": "array", "items": true }), json!({ "type": "array", "items": {} })),
        (
            json!({ "type": "array", "items": [{ "type": "string" }, false] }),
            json!({ "type": "array", "prefixItems": [{ "type": "string" }, {}], "items": {} }),
        ),
        (json!({ "enum": [] }), json!({})),
        (json!({ "enum": ["a", null, "a"] }), json!({ "enum": ["a", null] })),
        (
            json!({ "type": "number", "minimum": 1, "exclusiveMinimum": true }),
            json!({ "type": "number", "exclusiveMinimum": 1 }),
        ),
        (
            json!({ "type": "string", "minLength": -1, "description": 7, "format": "uri" }),
            json!({ "type": "string", "format": "uri" }),
        ),
        (
            json!({ "type": "string", "pattern": "^[a-z]+$" }),
            json!({ "type": "string", "pattern": "^[a-z]+$" }),
        ),
        (json!({ "type": "string", "pattern": "(?<=a)b" }), json!({ "type": "string" })),
        (json!(true), json!({})),
        (json!({ "oneOf": [{ "type": "string" }, false] }), json!({ "anyOf": [{ "type": "string" }] })),
        (
            json!({ "allOf": [{ "type": "number", "minimum": 1 }, { "type": "integer", "minimum": 3 }] }),
            json!({ "type": "integer", "minimum": 3 }),
        ),
        (
            json!({ "type": "object", "patternProperties": { "^x": {} }, "additionalProperties": false }),
            json!({ "type": "object" }),
        ),
        (
            json!({ "type": "object", "properties": { "enum": { "type": "string" }, "required": { "type": "null" } } }),
            json!({ "type": "object", "properties": { "enum": { "type": "string" }, "required": { "type": "null" } } }),
        ),
    ];
    for (schema, expected) in cases {
        for dialect in [Dialect::Anthropic, Dialect::OpenAi] {
            assert_eq!(parameter(schema.clone(), dialect), expected, "{schema}");
        }
    }
}

#[test]
fn gemini_gets_its_subset() {
    let any = json!({ "anyOf": [
        { "type": "string" }, { "type": "number" }, { "type": "boolean" }, { "type": "object" },
    ] });
    let cases = [
        (json!({ "type": ["string", "null"] }), json!({ "type": "string", "nullable": true })),
        (
            json!({ "type": ["string", "integer"], "description": "x" }),
            json!({ "anyOf": [{ "type": "string", "description": "x" }, { "type": "integer", "description": "x" }] }),
        ),
        (
            json!({ "anyOf": [{ "type": "string", "format": "date-time" }, { "type": "null" }], "default": null }),
            json!({ "type": "string", "format": "date-time", "nullable": true }),
        ),
        (json!({ "const": "a" }), json!({ "type": "string", "enum": ["a"] })),
        (json!({ "enum": ["a", "", null] }), json!({ "type": "string", "nullable": true, "enum": ["a"] })),
        (json!({ "enum": [1, 2] }), json!({ "type": "integer", "description": "One of: 1, 2." })),
        (
            json!({ "type": "string", "format": "uri", "pattern": "a", "minLength": 1 }),
            json!({ "type": "string" }),
        ),
        (
            json!({ "type": "integer", "exclusiveMinimum": 0, "default": 3 }),
            json!({ "type": "integer", "minimum": 0, "description": "Default: 3." }),
        ),
        (
            json!({ "type": "object", "additionalProperties": { "type": "string" } }),
            json!({ "type": "object", "description": "Each further value fits {\"type\":\"string\"}." }),
        ),
        (
            json!({ "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a", "b"], "additionalProperties": false }),
            json!({ "type": "object", "required": ["a"], "properties": { "a": { "type": "string" } } }),
        ),
        (json!({ "type": "array" }), json!({ "type": "array", "items": any })),
        (
            json!({ "type": "array", "prefixItems": [{ "type": "number" }, { "type": "number" }] }),
            json!({ "type": "array", "items": { "type": "number" } }),
        ),
        (json!({}), any),
    ];
    for (schema, expected) in cases {
        assert_eq!(parameter(schema.clone(), Dialect::Gemini), expected, "{schema}");
    }
}

#[test]
fn only_irreparable_tools_are_omitted() {
    let tools = [
        tool("good", json!({})),
        tool("bad name", json!({})),
        tool("list", json!({ "type": "array" })),
        tool("good", json!({})),
        tool("number", json!(7)),
        tool("last", json!({})),
    ];
    let (accepted, left_out) = sanitize(&tools, Dialect::Anthropic);
    let names: Vec<_> = accepted.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["good", "last"]);
    let left_out: Vec<_> = left_out.iter().map(|(name, reason)| (name.as_str(), reason.as_str())).collect();
    let expected = [
        ("bad name", "at `name`: `bad name` must have 1 to 64 letters, digits, `_`, or `-`"),
        ("list", "at `input_schema/type`: the arguments are not an object"),
        ("good", "at `name`: another tool already has this name"),
        ("number", "at `input_schema`: not a schema"),
    ];
    assert_eq!(left_out, expected);
}

#[test]
fn names_follow_the_dialect() {
    let long = "a".repeat(64);
    for (name, expected) in
        [("a-b_1", [true; 3]), ("1a", [true, true, false]), ("", [false; 3]), (&long, [true; 3])]
    {
        let accepted = DIALECTS.map(|dialect| !sanitize(&[tool(name, json!({}))], dialect).0.is_empty());
        assert_eq!(accepted, expected, "{name}");
    }
    let schema = json!({ "properties": { "$filter": { "type": "string" }, "ok": { "type": "string" } } });
    let counts =
        DIALECTS.map(|dialect| repaired(schema.clone(), dialect)["properties"].as_object().unwrap().len());
    assert_eq!(counts, [1, 2, 1]);
    let required = json!({ "properties": { "a": { "type": "object", "properties": { "b c": {} }, "required": ["b c"] } } });
    let reason = "at `input_schema/properties/a/properties/b c`: anthropic does not accept the name of this required parameter";
    assert_eq!(reasons(required, Dialect::Anthropic), [reason]);
}

#[test]
fn depth_and_size_are_bounded() {
    let mut deep = json!({ "type": "string" });
    for _ in 0..60 {
        deep = json!({ "type": "object", "properties": { "a": deep } });
    }
    for dialect in DIALECTS {
        assert!(repaired(deep.clone(), dialect).to_string().len() < 1_000);
    }
    // Each definition names the next one twice.
    let mut definitions = Node::new();
    for level in 0..40 {
        let next = json!({ "$ref": format!("#/$defs/{}", level + 1) });
        definitions.insert(level.to_string(), json!({ "properties": { "a": next, "b": next, "c": next } }));
    }
    let wide = json!({ "$ref": "#/$defs/0", "$defs": definitions });
    // Any value in place of a schema becomes one.
    let long = json!({ "properties": { "a": { "prefixItems": vec![1; 5_000] } } });
    let huge = json!({ "properties": { "a": { "description": "x".repeat(MAX_SCHEMA) } } });
    for dialect in DIALECTS {
        for many in [&wide, &long] {
            assert_eq!(reasons(many.clone(), dialect), ["at `input_schema`: more than 4000 nested schemas"]);
        }
        assert_eq!(reasons(huge.clone(), dialect).len(), 1);
    }
    let verbose = ToolDef { description: "é".repeat(MAX_DESCRIPTION), ..tool("t", json!({})) };
    let description = sanitize(&[verbose], Dialect::OpenAi).0.remove(0).description;
    assert!(description.len() <= MAX_DESCRIPTION && description.ends_with("é…"));
}

#[test]
fn universal_patterns_are_kept() {
    let good =
        ["", "^a.b$", "[a-z0-9_-]+", "(?:a|b){2,3}", r"\d{4}-\d{2}", r"[^\s/]*?", "a?b+", r"\$\{x\}", "[.]"];
    let bad = [
        "(",
        ")",
        "[",
        "[]",
        "*a",
        "a**",
        "a{2,1}",
        "{",
        r"\p{L}",
        r"\1",
        "(?i)a",
        "(?=a)",
        r"a\",
        "[z-a]",
        "ä",
        "a{5000}",
        "[[:alpha:]]",
        "[a&&b]",
    ];
    for pattern in good {
        assert!(pattern::is_common(pattern), "{pattern}");
    }
    for pattern in bad {
        assert!(!pattern::is_common(pattern), "{pattern}");
    }
}
