//! Whether a model's text is the structured output that was asked for.

use std::sync::Arc;

use jsonschema::Validator;
use meerkat_core::OutputSchema;
use serde_json::Value;

use crate::Error;

/// An output schema, ready to judge.
#[derive(Clone)]
pub(crate) struct OutputJudge {
    schema: Arc<OutputSchema>,
    validator: Arc<Validator>,
}

/// How many faults of an output are told to the model.
const FAULTS: usize = 5;

impl OutputJudge {
    pub(crate) fn new(schema: OutputSchema) -> Result<Self, Error> {
        let validator = jsonschema::draft202012::new(&schema.schema)
            .map_err(|error| Error::SchemaRules(error.to_string()))?;
        Ok(Self { schema: Arc::new(schema), validator: Arc::new(validator) })
    }

    pub(crate) fn schema(&self) -> Arc<OutputSchema> {
        Arc::clone(&self.schema)
    }

    /// Reads the text as JSON and checks it; the error says what is wrong and where.
    pub(crate) fn judge(&self, text: &str) -> Result<Value, String> {
        let value: Value =
            serde_json::from_str(unfence(text)).map_err(|error| format!("it is not JSON: {error}"))?;
        match self.check(&value) {
            Ok(()) => Ok(value),
            Err(reason) => self.unwrapped(&value).or_else(|| self.without_nulls(value)).ok_or(reason),
        }
    }

    /// A provider that must fill every property writes `null` for those that are optional.
    fn without_nulls(&self, mut value: Value) -> Option<Value> {
        drop_optional_nulls(&mut value, &self.schema.schema);
        self.check(&value).is_ok().then_some(value)
    }

    fn check(&self, value: &Value) -> Result<(), String> {
        let fault = |error: jsonschema::ValidationError<'_>| {
            let place = error.instance_path().to_string();
            if place.is_empty() { error.to_string() } else { format!("at `{place}`: {error}") }
        };
        let faults: Vec<_> = self.validator.iter_errors(value).take(FAULTS).map(fault).collect();
        if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
    }

    /// Models like to put the value under the schema's name.
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

/// Takes a code fence off.
fn unfence(text: &str) -> &str {
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

    fn judge(schema: Value) -> OutputJudge {
        OutputJudge::new(OutputSchema::parse(schema).unwrap()).unwrap()
    }

    #[test]
    fn fences_and_the_schemas_name_are_taken_off() {
        let judge = judge(json!({
            "schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
            "name": "count",
        }));
        for good in
            ["{\"n\": 1}", " ```json\n{\"n\": 1}\n``` ", "```\n{\"n\":1}```", "{\"count\": {\"n\": 1}}"]
        {
            assert_eq!(judge.judge(good), Ok(json!({"n": 1})), "{good}");
        }
    }

    #[test]
    fn nulls_of_optional_properties_are_as_good_as_nothing() {
        let judge = judge(json!({
            "type": "object",
            "properties": {"n": {"type": "integer"}, "s": {"type": "string"}},
            "required": ["n"],
        }));
        assert_eq!(judge.judge("{\"n\": 1, \"s\": null}"), Ok(json!({"n": 1})));
        assert!(judge.judge("{\"n\": null}").is_err());
    }

    #[test]
    fn faults_say_what_and_where() {
        let judge =
            judge(json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["m"]}));
        let reason = judge.judge("{\"n\": \"x\"}").unwrap_err();
        assert_eq!(reason, "\"m\" is a required property; at `/n`: \"x\" is not of type \"integer\"");
        assert!(judge.judge("no").unwrap_err().starts_with("it is not JSON: "));
        let bad = OutputSchema::parse(json!({"type": "nothing"})).unwrap();
        assert!(OutputJudge::new(bad).is_err());
    }
}
