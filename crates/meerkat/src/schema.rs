//! Validation of structured output.

use std::sync::Arc;

use jsonschema::Validator;
use meerkat_core::OutputSchema;
use serde_json::Value;

/// Error of an output schema that is not a valid JSON Schema.
#[derive(Debug, thiserror::Error)]
#[error("`output_schema` is not a valid JSON Schema: {0}")]
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
        let validator =
            jsonschema::draft202012::new(&schema.schema).map_err(|error| InvalidSchema(error.to_string()))?;
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
        let describe = |error: jsonschema::ValidationError<'_>| {
            let path = error.instance_path().to_string();
            if path.is_empty() { error.to_string() } else { format!("at `{path}`: {error}") }
        };
        let errors: Vec<_> = self.validator.iter_errors(value).take(MAX_ERRORS).map(describe).collect();
        if errors.is_empty() { Ok(()) } else { Err(errors.join("; ")) }
    }

    /// Unwraps a value nested under the schema's name, as models often write it.
    fn unwrapped(&self, value: &Value) -> Option<Value> {
        let object = value.as_object().filter(|object| object.len() == 1)?;
        let inner = object.get(self.schema.name.as_deref()?)?;
        self.check(inner).is_ok().then(|| inner.clone())
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
