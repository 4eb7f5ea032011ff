//! Random schemas: nothing panics, and no provider would reject the output.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::checker::{check, name_is_fine};
use super::{DIALECTS, tool};
use crate::schema::{output, output_warnings, sanitize};

const PLAIN: [&str; 30] = [
    "type",
    "enum",
    "const",
    "title",
    "description",
    "format",
    "default",
    "examples",
    "pattern",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
    "required",
    "nullable",
    "minProperties",
    "maxProperties",
    "$ref",
    "$schema",
    "$id",
    "$anchor",
    "$comment",
    "deprecated",
    "x-other",
];
const WITH_SCHEMA: [&str; 11] = [
    "items",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "additionalItems",
    "unevaluatedProperties",
    "type",
];
const WITH_LIST: [&str; 6] = ["anyOf", "oneOf", "allOf", "prefixItems", "items", "properties"];
const WITH_MAP: [&str; 7] =
    ["properties", "properties", "$defs", "definitions", "patternProperties", "dependentSchemas", "anyOf"];
const NAMES: [&str; 10] = ["a", "b", "type", "$ref", "enum", "properties", "a b", "é", "", "d.e-f"];

fn scalar() -> impl Strategy<Value = Value> {
    let texts = [
        "string",
        "object",
        "array",
        "integer",
        "number",
        "boolean",
        "null",
        "int",
        "odd",
        "",
        "date-time",
        "uri",
        "^a+$",
        "(?<x>a",
        "a",
        "b",
        "#",
        "#/$defs/a",
        "#/$defs/b",
        "#/definitions/a",
        "#/properties/a",
        "#a",
        "https://x/y",
    ];
    prop_oneof![
        4 => prop::sample::select(texts.to_vec()).prop_map(Value::from),
        1 => (-3..40_i64).prop_map(Value::from),
        1 => any::<f64>().prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
    ]
}

fn type_names() -> impl Strategy<Value = Value> {
    let names = ["string", "object", "array", "integer", "number", "boolean", "null"];
    prop_oneof![
        3 => prop::sample::select(names.to_vec()).prop_map(Value::from),
        1 => prop::collection::vec(prop::sample::select(names.to_vec()), 0..4).prop_map(Value::from),
    ]
}

fn simple() -> impl Strategy<Value = (String, Value)> {
    let any_value =
        prop_oneof![2 => scalar(), 1 => prop::collection::vec(scalar(), 0..4).prop_map(Value::from)];
    prop_oneof![
        2 => type_names().prop_map(|names| ("type".to_owned(), names)),
        3 => (prop::sample::select(PLAIN.to_vec()), any_value).prop_map(|(key, value)| (key.to_owned(), value)),
    ]
}

fn object(pairs: Vec<(String, Value)>) -> Value {
    pairs.into_iter().collect::<serde_json::Map<_, _>>().into()
}

fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        4 => prop::collection::vec(simple(), 0..4).prop_map(object),
        1 => scalar(),
    ];
    leaf.prop_recursive(5, 60, 5, |inner| {
        let name = prop::sample::select(NAMES.to_vec()).prop_map(str::to_owned);
        let map = prop::collection::vec((name, inner.clone()), 0..4).prop_map(object);
        let list = prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from);
        let pair = prop_oneof![
            3 => simple(),
            2 => (prop::sample::select(WITH_SCHEMA.to_vec()), inner).prop_map(|(key, value)| (key.to_owned(), value)),
            2 => (prop::sample::select(WITH_LIST.to_vec()), list).prop_map(|(key, value)| (key.to_owned(), value)),
            3 => (prop::sample::select(WITH_MAP.to_vec()), map).prop_map(|(key, value)| (key.to_owned(), value)),
        ];
        prop::collection::vec(pair, 0..7).prop_map(object)
    })
}

/// Half of the schemas have an object at the top, so that they are not omitted for lack of one.
fn tool_schema() -> impl Strategy<Value = Value> {
    let rooted = schema().prop_map(|mut schema| {
        if let Value::Object(node) = &mut schema {
            node.insert("type".to_owned(), json!("object"));
        }
        schema
    });
    prop_oneof![schema(), rooted]
}

fn tool_name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["a", "b", "c-d", "_e", "1f", "g h", "", "i.j", "é"])
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(1_000))]

    #[test]
    fn converted_tools_follow_provider_rules(tools in prop::collection::vec((tool_name(), tool_schema()), 1..3)) {
        let tools: Vec<_> = tools.into_iter().map(|(name, schema)| tool(name, schema)).collect();
        for dialect in DIALECTS {
            let (accepted, left_out) = sanitize(&tools, dialect);
            prop_assert_eq!(accepted.len() + left_out.len(), tools.len());
            for (index, tool) in accepted.iter().enumerate() {
                prop_assert!(name_is_fine(&tool.name, dialect), "{}", tool.name);
                prop_assert!(accepted[..index].iter().all(|other| other.name != tool.name));
                prop_assert_eq!(check(&tool.input_schema, dialect), Ok(()));
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn repairing_twice_changes_nothing(schema in tool_schema()) {
        for dialect in [DIALECTS[0], DIALECTS[1]] {
            let (once, _) = sanitize(&[tool("t", schema.clone())], dialect);
            let (twice, _) = sanitize(&once, dialect);
            prop_assert_eq!(&once, &twice);
        }
    }

    #[test]
    fn random_output_schemas_never_panic(schema in schema()) {
        for dialect in DIALECTS {
            output_warnings(&schema, dialect);
            for strict in [false, true] {
                output(&schema, dialect, strict);
            }
        }
    }
}
