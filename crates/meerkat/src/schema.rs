//! Validation of structured output.

mod size;

use std::sync::Arc;

use jsonschema::{ValidationError, Validator};
use meerkat_core::{OutputSchema, excerpt, excerpt_message};
use serde_json::{Map, Value};

/// Error of an output schema that is not a valid JSON Schema, or that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("`output_schema` {0}")]
pub struct InvalidSchema(pub(crate) String);

/// Validator for an output schema.
#[derive(Clone)]
pub(crate) struct OutputValidator {
    schema: Arc<OutputSchema>,
    validator: Arc<Validator>,
}

/// Maximum number of validation errors reported to the model.
const MAX_ERRORS: usize = 5;

impl OutputValidator {
    pub(crate) fn new(schema: OutputSchema) -> Result<Self, InvalidSchema> {
        if let Some(reason) = size::excess(&schema.schema) {
            return Err(InvalidSchema(reason));
        }
        let validator = jsonschema::draft202012::new(&schema.schema)
            .map_err(|error| InvalidSchema(format!("is not a valid JSON Schema: {}", describe(&error))))?;
        let supplied = values(&schema.schema);
        let root = &schema.schema;
        let can_match =
            |value: &Value| size::is_expensive(root, value, size::MAX_STEPS) || validator.is_valid(value);
        let path = if supplied.is_some_and(|mut values| !values.any(can_match)) {
            Some(String::new())
        } else {
            unmatchable(&schema.schema)
        };
        if let Some(path) = path {
            return Err(InvalidSchema(format!("cannot be met: no value matches `#{}`", excerpt(&path))));
        }
        Ok(Self { schema: Arc::new(schema), validator: Arc::new(validator) })
    }

    pub(crate) fn schema(&self) -> Arc<OutputSchema> {
        Arc::clone(&self.schema)
    }

    /// Parses the text as JSON and validates it. The error describes what is wrong and where.
    pub(crate) fn validate(&self, text: &str) -> Result<Value, String> {
        let value: Value = serde_json::from_str(strip_code_fence(text))
            .map_err(|error| format!("it is not JSON: {error}"))?;
        match self.check(&value) {
            Ok(()) => Ok(value),
            Err(reason) => self.unwrapped(&value).or_else(|| self.without_nulls(value)).ok_or(reason),
        }
    }

    /// Drops `null` for optional properties, which providers write if they must fill every property.
    fn without_nulls(&self, mut value: Value) -> Option<Value> {
        drop_optional_nulls(&mut value, &self.schema.schema);
        self.check(&value).is_ok().then_some(value)
    }

    fn check(&self, value: &Value) -> Result<(), String> {
        let root = &self.schema.schema;
        if size::is_expensive(root, value, size::MAX_STEPS) {
            return Err("it is too large or too deep to be validated with the schema".to_owned());
        }
        if self.validator.is_valid(value) {
            return Ok(());
        }
        // The validator collects the errors of every value and of every alternative before it returns the first one.
        if size::is_expensive(root, value, size::MAX_LISTED) {
            return Err("it does not match the schema".to_owned());
        }
        let located = |error: ValidationError<'_>| {
            let (path, reason) = (error.instance_path().to_string(), describe(&error));
            if path.is_empty() { reason } else { format!("at `{}`: {reason}", excerpt(&path)) }
        };
        let errors: Vec<_> = self.validator.iter_errors(value).take(MAX_ERRORS).map(located).collect();
        Err(errors.join("; "))
    }

    /// Unwraps a value nested under the schema's name, as models often write it.
    fn unwrapped(&self, value: &Value) -> Option<Value> {
        let object = value.as_object().filter(|object| object.len() == 1)?;
        let inner = object.get(self.schema.name.as_deref()?)?;
        self.check(inner).is_ok().then(|| inner.clone())
    }
}

/// Describes an error, with only the start of the value.
fn describe(error: &ValidationError<'_>) -> String {
    excerpt_message(&error.masked_with(excerpt(&error.instance().to_string())).to_string())
}

/// Returns the values that a schema lists, if it lists them.
fn values(schema: &Value) -> Option<impl Iterator<Item = &Value>> {
    let one = schema.get("const").map(std::slice::from_ref);
    Some(one.or_else(|| Some(schema.get("enum")?.as_array()?.as_slice()))?.iter())
}

/// Returns the path of a part of a schema that no value matches although every value must, if that is evident.
fn unmatchable(schema: &Value) -> Option<String> {
    let below = |key: &str, part: &Value| unmatchable(part).map(|path| format!("/{key}{path}"));
    let all = |key: &str| schema.get(key).and_then(Value::as_array).into_iter().flatten();
    let is = |name: &str| schema.get("type").is_some_and(|types| types == name);
    let exceeds = |low: &str, high: &str| {
        let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
        bound(low).zip(bound(high)).is_some_and(|(low, high)| low > high)
    };
    let excludes_all = |not: &Value| *not == Value::Bool(true) || not.as_object().is_some_and(Map::is_empty);
    let has_type = |value: &Value| match schema.get("type") {
        Some(Value::String(name)) => is_type(value, name),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).any(|name| is_type(value, name)),
        _ => true,
    };
    if *schema == Value::Bool(false)
        || schema.get("not").is_some_and(excludes_all)
        || values(schema).is_some_and(|mut values| !values.any(has_type))
        || (is("number") || is("integer")) && exceeds("minimum", "maximum")
        || is("string") && exceeds("minLength", "maxLength")
        || is("array") && exceeds("minItems", "maxItems")
        || is("object") && exceeds("minProperties", "maxProperties")
    {
        return Some(String::new());
    }
    let branch = ["anyOf", "oneOf"].into_iter().find_map(|key| {
        let mut paths = all(key).enumerate().map(|(index, part)| below(&format!("{key}/{index}"), part));
        let first = paths.next()??;
        paths.all(|path| path.is_some()).then_some(first)
    });
    let part = || all("allOf").enumerate().find_map(|(index, part)| below(&format!("allOf/{index}"), part));
    let property = || {
        let mut names = all("required").filter(|_| is("object")).filter_map(Value::as_str);
        names.find_map(|name| below(&format!("properties/{name}"), schema.get("properties")?.get(name)?))
    };
    let item = || {
        let is_needed = is("array") && schema.get("minItems").and_then(Value::as_u64) > Some(0);
        below("items", schema.get("items").filter(|_| is_needed && schema.get("prefixItems").is_none())?)
    };
    branch.or_else(part).or_else(property).or_else(item)
}

fn is_type(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    }
}

fn drop_optional_nulls(value: &mut Value, schema: &Value) {
    match value {
        Value::Array(items) => {
            for item in items {
                drop_optional_nulls(item, &schema["items"]);
            }
        }
        Value::Object(object) => {
            let required =
                |key: &str| schema["required"].as_array().is_some_and(|r| r.iter().any(|name| name == key));
            object.retain(|key, value| !value.is_null() || required(key));
            for (key, value) in object {
                drop_optional_nulls(value, &schema["properties"][key.as_str()]);
            }
        }
        _ => {}
    }
}

/// Strips a code fence.
fn strip_code_fence(text: &str) -> &str {
    let text = text.trim();
    let Some(inner) = text.strip_prefix("```").and_then(|text| text.strip_suffix("```")) else {
        return text;
    };
    let inner = inner.strip_prefix("json").unwrap_or(inner);
    inner.trim()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn validator(schema: Value) -> OutputValidator {
        OutputValidator::new(OutputSchema::parse(schema).unwrap()).unwrap()
    }

    #[test]
    fn fences_and_schema_name_are_stripped() {
        let validator = validator(json!({
            "schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
            "name": "count",
        }));
        for valid in
            ["{\"n\": 1}", " ```json\n{\"n\": 1}\n``` ", "```\n{\"n\":1}```", "{\"count\": {\"n\": 1}}"]
        {
            assert_eq!(validator.validate(valid), Ok(json!({"n": 1})), "{valid}");
        }
    }

    #[test]
    fn nulls_of_optional_properties_are_dropped() {
        let validator = validator(json!({
            "type": "object",
            "properties": {"n": {"type": "integer"}, "s": {"type": "string"}},
            "required": ["n"],
        }));
        assert_eq!(validator.validate("{\"n\": 1, \"s\": null}"), Ok(json!({"n": 1})));
        assert!(validator.validate("{\"n\": null}").is_err());
    }

    #[test]
    fn unmatchable_schemas_are_rejected() {
        let needs = |part: Value| json!({"type": "object", "properties": {"a": part}, "required": ["a"]});
        let cases = [
            (json!({"not": {}}), "#"),
            (json!({"not": true}), "#"),
            (json!({"enum": []}), "#"),
            (json!({"type": "string", "enum": [1, null]}), "#"),
            (json!({"type": "string", "const": 1}), "#"),
            (json!({"minimum": 5, "enum": [1, 2]}), "#"),
            (json!({"type": "integer", "minimum": 2, "maximum": 1}), "#"),
            (json!({"type": "string", "minLength": 2, "maxLength": 1}), "#"),
            (json!({"allOf": [{}, false]}), "#/allOf/1"),
            (json!({"anyOf": [false, {"not": {}}]}), "#/anyOf/0"),
            (needs(json!(false)), "#/properties/a"),
            (needs(needs(json!({"type": ["null", "string"], "enum": [0.5]}))), "#/properties/a/properties/a"),
            (json!({"type": "array", "minItems": 1, "items": false}), "#/items"),
            (json!({"schema": {"not": {}}, "name": "n"}), "#"),
        ];
        for (schema, path) in cases {
            let error = OutputValidator::new(OutputSchema::parse(schema.clone()).unwrap()).err().unwrap();
            let expected = format!("`output_schema` cannot be met: no value matches `{path}`");
            assert_eq!(error.to_string(), expected, "{schema}");
        }
        let possible = [
            json!({}),
            json!({"not": {"type": "null"}}),
            json!({"anyOf": [false, {"type": "null"}]}),
            json!({"type": "integer", "enum": ["a", 1.0]}),
            json!({"properties": {"a": false}, "required": ["a"]}),
            json!({"type": "array", "items": false}),
            json!({"type": ["string", "null"], "minLength": 2, "maxLength": 1}),
            json!({"type": "object", "properties": {"a": false}}),
        ];
        possible.into_iter().for_each(|schema| drop(validator(schema)));
    }

    #[test]
    fn errors_of_large_values_are_bounded() {
        let text = validator(json!({"type": "array", "items": {"type": "string"}}));
        let long = "x".repeat(100_000);
        let reason = text.validate(&json!([[long], 7]).to_string()).unwrap_err();
        assert!(reason.starts_with("at `/0`: [\"xxx") && reason.len() < 300, "{reason}");
        assert!(reason.ends_with("; at `/1`: 7 is not of type \"string\""), "{reason}");
        // Each item has an error for each alternative.
        let alternatives = validator(json!({"items": {"anyOf": vec![json!({"type": "string"}); 100]}}));
        let reason = alternatives.validate(&json!(vec![1; 10_000]).to_string()).unwrap_err();
        assert_eq!(reason, "it does not match the schema");
    }

    #[test]
    fn repeated_recursion_is_bounded() {
        let part = json!({"properties": {"x": {"$ref": "#"}}});
        let validator = validator(json!({"type": "object", "allOf": [part, part, {"$ref": "#/allOf/0"}]}));
        let nested = |depth| format!("{}{{}}{}", "{\"x\":".repeat(depth), "}".repeat(depth));
        assert!(validator.validate(&nested(5)).is_ok());
        let reason = validator.validate(&nested(60)).unwrap_err();
        assert_eq!(reason, "it is too large or too deep to be validated with the schema");
    }

    #[test]
    fn errors_include_reason_and_path() {
        let validator =
            validator(json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["m"]}));
        let reason = validator.validate("{\"n\": \"x\"}").unwrap_err();
        assert_eq!(reason, "\"m\" is a required property; at `/n`: \"x\" is not of type \"integer\"");
        assert!(validator.validate("no").unwrap_err().starts_with("it is not JSON: "));
        let bad = OutputSchema::parse(json!({"type": "nothing"})).unwrap();
        assert!(OutputValidator::new(bad).is_err());
    }
}
