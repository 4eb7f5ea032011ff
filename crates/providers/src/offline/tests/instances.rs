use serde_json::{Value, json};

use super::super::instance::instance;

/// Checks the value created for a schema against the expected one and against a real validator.
fn check(schema: &Value, expected: &Value) {
    let value = instance(schema);
    assert_eq!(&value, expected, "{schema}");
    let validator = jsonschema::options().should_validate_formats(true).build(schema).unwrap();
    assert!(validator.is_valid(&value), "{value} does not match {schema}");
}

#[test]
fn plain_values_match() {
    let cases = [
        (json!({}), json!(null)),
        (json!({"type": "string"}), json!("")),
        (json!({"type": "boolean"}), json!(false)),
        (json!({"type": "null"}), json!(null)),
        (json!({"type": ["string", "null"]}), json!("")),
        (json!({"type": "string", "minLength": 3, "maxLength": 3}), json!("xxx")),
        (json!({"minLength": 2}), json!("xx")),
        (json!({"type": "string", "format": "date-time"}), json!("2026-01-01T00:00:00Z")),
        (json!({"type": "string", "format": "date"}), json!("2026-01-01")),
        (json!({"type": "string", "format": "email"}), json!("user@example.com")),
        (json!({"type": "string", "format": "uri"}), json!("https://example.com/")),
        (json!({"type": "string", "format": "uuid"}), json!("00000000-0000-4000-8000-000000000000")),
        (json!({"type": "string", "format": "ipv6"}), json!("::1")),
        (json!({"const": {"a": [1]}}), json!({"a": [1]})),
        (json!({"type": "string", "enum": [1, "b", "c"]}), json!("b")),
        (json!({"type": "string", "default": "d", "examples": ["e"]}), json!("d")),
        (json!({"type": "string", "default": null, "examples": ["e"]}), json!("e")),
        (json!({"type": "object", "default": {}, "required": ["a"]}), json!({"a": null})),
    ];
    for (schema, expected) in cases {
        check(&schema, &expected);
    }
}

#[test]
fn numbers_stay_within_bounds() {
    let cases = [
        (json!({"type": "integer"}), json!(0)),
        (json!({"type": "number"}), json!(0)),
        (json!({"type": "integer", "minimum": -5, "maximum": 5}), json!(0)),
        (json!({"type": "integer", "minimum": 5}), json!(5)),
        (json!({"type": "integer", "minimum": 4.2}), json!(5)),
        (json!({"type": "integer", "exclusiveMinimum": 5}), json!(6)),
        (json!({"type": "integer", "minimum": 5, "exclusiveMinimum": 5}), json!(6)),
        (json!({"type": "integer", "maximum": -5}), json!(-5)),
        (json!({"type": "integer", "exclusiveMaximum": -5}), json!(-6)),
        (json!({"type": "integer", "minimum": 11, "multipleOf": 7}), json!(14)),
        (json!({"type": "integer", "minimum": 1, "multipleOf": 1.5}), json!(3)),
        (json!({"type": "integer", "maximum": -1, "multipleOf": 7}), json!(-7)),
        (json!({"type": "integer", "minimum": u64::MAX - 1}), json!(u64::MAX - 1)),
        (json!({"type": "integer", "minimum": i64::MIN, "maximum": i64::MIN}), json!(i64::MIN)),
        (json!({"type": "number", "minimum": 0.5}), json!(0.5)),
        (json!({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}), json!(0.5)),
        (json!({"type": "number", "exclusiveMinimum": 0.5}), json!(1)),
        (json!({"type": "number", "maximum": -0.5}), json!(-0.5)),
        (json!({"type": "number", "exclusiveMinimum": 1, "multipleOf": 0.25}), json!(1.25)),
        (json!({"minimum": 2}), json!(2)),
    ];
    for (schema, expected) in cases {
        check(&schema, &expected);
    }
}

#[test]
fn objects_and_lists_have_required_items() {
    let cases = [
        (json!({"type": "object", "properties": {"a": {}}}), json!({})),
        (
            json!({
                "properties": {"b": {"type": "integer"}, "skipped": {}, "a": {"type": "string"}},
                "required": ["a", "b", "c"],
                "additionalProperties": {"type": "boolean"},
            }),
            json!({"b": 0, "a": "", "c": false}),
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "null"}}, "minProperties": 2}),
            json!({"a": null, "property1": null}),
        ),
        (json!({"type": "array", "items": {"type": "string", "minLength": 1}}), json!([])),
        (json!({"type": "array", "items": {"type": "string"}, "minItems": 2}), json!(["", ""])),
        (
            json!({
                "type": "array", "minItems": 3, "items": {"type": "boolean"},
                "prefixItems": [{"const": 1}, {"type": "string"}],
            }),
            json!([1, "", false]),
        ),
        (json!({"type": ["array", "object"], "minItems": 1, "items": false}), json!({})),
    ];
    for (schema, expected) in cases {
        check(&schema, &expected);
    }
}

#[test]
fn schema_parts_are_resolved_and_merged() {
    let cases = [
        (json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "integer"}}}), json!(0)),
        (
            json!({"$ref": "#/definitions/a", "minimum": 4, "definitions": {"a": {"type": "integer"}}}),
            json!(4),
        ),
        (json!({"anyOf": [false, {"type": "string"}, {}]}), json!("")),
        (json!({"oneOf": [{"type": "array", "minItems": 1, "items": false}, {"type": "null"}]}), json!(null)),
        (
            json!({
                "type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"],
                "oneOf": [
                    {"properties": {"kind": {"const": "a"}}, "required": ["kind"]},
                    {"properties": {"kind": {"const": "b"}}, "required": ["kind"]},
                ],
            }),
            json!({"id": "", "kind": "a"}),
        ),
        (
            json!({
                "allOf": [
                    {"$ref": "#/$defs/named"},
                    {"properties": {"n": {"type": "integer", "minimum": 2}}, "required": ["n"]},
                    {"properties": {"n": {"minimum": 1, "type": "number"}}},
                ],
                "$defs": {"named": {
                    "type": "object", "properties": {"name": {"type": "string", "minLength": 1}}, "required": ["name"],
                }},
            }),
            json!({"name": "x", "n": 2}),
        ),
        (json!({"allOf": [{"enum": [1, 2, 3]}, {"enum": [3, 2]}, {"type": ["integer", "null"]}]}), json!(2)),
    ];
    for (schema, expected) in cases {
        check(&schema, &expected);
    }
}

#[test]
fn recursive_schemas_terminate() {
    let tree = json!({
        "type": "object",
        "properties": {
            "next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]},
            "children": {"type": "array", "items": {"$ref": "#"}},
        },
        "required": ["next", "children"],
    });
    check(
        &json!({"$ref": "#/$defs/tree", "$defs": {"tree": {
            "type": "object",
            "properties": {
                "next": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]},
                "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
            },
            "required": ["next", "children"],
        }}}),
        &json!({"next": null, "children": []}),
    );
    check(&tree, &json!({"next": null, "children": []}));
}

#[test]
fn unsatisfiable_schemas_give_null_quickly() {
    let doubling: serde_json::Map<_, _> = (0..60)
        .map(|n| {
            let next = json!({"$ref": format!("#/$defs/{}", n + 1)});
            let pair = json!({"properties": {"a": next, "b": next}, "required": ["a", "b"]});
            (n.to_string(), pair)
        })
        .collect();
    let merging: serde_json::Map<_, _> = (0..40)
        .map(|n| {
            let next = json!({"$ref": format!("#/$defs/{}", n + 1)});
            (n.to_string(), json!({"allOf": [next, next], "required": ["a"]}))
        })
        .collect();
    for schema in [
        json!(false),
        json!(7),
        json!({"type": "odd"}),
        json!({"enum": []}),
        json!({"$ref": "#/$defs/none"}),
        json!({"$ref": "https://example.com/schema"}),
        json!({"properties": {"a": {"$ref": "#"}}, "required": ["a"]}),
        json!({"allOf": [{"$ref": "#"}]}),
        json!({"allOf": [{"$ref": "#/allOf/0"}]}),
        json!({"type": "array", "minItems": 4_000_000_000_u64}),
        json!({"type": "string", "minLength": u64::MAX}),
        json!({"type": "object", "minProperties": 1e300}),
        json!({"type": "integer", "minimum": 2, "maximum": 1}),
        json!({"type": "integer", "minimum": 1, "multipleOf": 0}),
        json!({"type": "integer", "minimum": 1e300}),
        json!({"$ref": "#/$defs/0", "$defs": doubling}),
        json!({"$ref": "#/$defs/0", "$defs": merging}),
    ] {
        assert_eq!(instance(&schema), Value::Null, "{schema}");
    }
}
