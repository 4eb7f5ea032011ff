//! Decoding of arguments, and the rules of an input schema that decoding does not check.

use std::cmp::Reverse;
use std::collections::HashMap;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{ValidationError, Validator};
use meerkat_core::{at_path, decode, excerpt};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Error;

/// A part of an input schema. A validator collects every violation in its alternatives, which are as many as a list has
/// items; the parts find the first one.
pub(super) struct InputRules {
    validator: Validator,
    properties: HashMap<String, Self>,
    /// Rules of all other properties.
    additional: Option<Box<Self>>,
    items: Option<Box<Self>>,
    /// Rules of which a value must follow one.
    alternatives: Vec<Self>,
}

/// A value that violates a rule.
struct Violation {
    path: String,
    /// Number of keys and indexes in the path.
    depth: usize,
    is_type: bool,
    message: String,
}

/// The location of a value.
#[derive(Clone, Copy)]
struct Location<'a> {
    path: &'a str,
    depth: usize,
}

impl InputRules {
    pub(super) fn new(schema: &Value) -> Option<Self> {
        let part = |key: &str| Some(Box::new(Self::new(schema.get(key)?)?));
        let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        let alternatives = ["anyOf", "oneOf"].iter().filter_map(|key| schema.get(key)?.as_array()).flatten();
        Some(Self {
            validator: jsonschema::draft202012::new(schema).ok()?,
            properties: properties
                .filter_map(|(name, part)| Some((name.clone(), Self::new(part)?)))
                .collect(),
            additional: part("additionalProperties"),
            items: part("items"),
            alternatives: alternatives.filter_map(Self::new).collect(),
        })
    }

    /// Decodes arguments. Decoding stops at the first error, and has better messages for wrong types; what it accepts
    /// beyond the schema are values out of bounds, and lists that match the fields of an object. The bounds are ignored
    /// if the operation checks them itself.
    pub(super) fn decode<T: DeserializeOwned>(
        &self,
        arguments: Value,
        ignores_bounds: bool,
    ) -> Result<T, Error> {
        if self.validator.is_valid(&arguments) {
            return decode(arguments).map_err(Error::arguments);
        }
        let input = decode(&arguments).map_err(Error::arguments)?;
        let is_reported = |violation: &Violation| violation.is_type || !ignores_bounds;
        match self.violation(&arguments, Location { path: "", depth: 0 }, &is_reported) {
            Some(Violation { path, message, .. }) => {
                let path = if path.is_empty() { "." } else { &path };
                Err(Error::arguments(at_path(path, &message)))
            }
            None => Ok(input),
        }
    }

    /// Returns the first violation to report in an invalid value.
    fn violation(
        &self,
        value: &Value,
        at: Location<'_>,
        is_reported: &dyn Fn(&Violation) -> bool,
    ) -> Option<Violation> {
        let mut has_invalid_part = false;
        let mut check = |rules: Option<&Self>, value: &Value, path: &dyn Fn() -> String| {
            let rules = rules.filter(|rules| !rules.validator.is_valid(value))?;
            has_invalid_part = true;
            rules.violation(value, Location { path: &path(), depth: at.depth + 1 }, is_reported)
        };
        let in_part = match value {
            Value::Object(object) => object.iter().find_map(|(key, value)| {
                let rules = self.properties.get(key).or(self.additional.as_deref());
                check(rules, value, &|| {
                    if at.path.is_empty() { key.clone() } else { format!("{}.{key}", at.path) }
                })
            }),
            Value::Array(values) => values.iter().enumerate().find_map(|(index, value)| {
                check(self.items.as_deref(), value, &|| format!("{}[{index}]", at.path))
            }),
            _ => None,
        };
        if has_invalid_part {
            return in_part;
        }
        let invalid = self.alternatives.iter().filter(|rules| !rules.validator.is_valid(value));
        let violation = if invalid.clone().count() == self.alternatives.len() {
            // Of alternatives, the one that matches the furthest is the likely one.
            let violations = invalid.filter_map(|rules| rules.violation(value, at, &|_| true));
            violations.min_by_key(|violation| Reverse(violation.depth))
        } else {
            None
        };
        violation.or_else(|| self.own_violation(value, at)).filter(is_reported)
    }

    /// Returns the violation of a value whose parts are valid.
    fn own_violation(&self, value: &Value, at: Location<'_>) -> Option<Violation> {
        let error = self.validator.validate(value).err()?;
        let is_type = matches!(error.kind(), ValidationErrorKind::Type { .. });
        Some(Violation {
            path: at.path.to_owned(),
            depth: at.depth,
            is_type,
            message: describe(&error, value),
        })
    }
}

fn describe(error: &ValidationError<'_>, value: &Value) -> String {
    if matches!(error.kind(), ValidationErrorKind::Pattern { pattern } if pattern == r"\S") {
        return "must not be blank".to_owned();
    }
    let value = match value {
        Value::String(text) => excerpt(text),
        value => excerpt(&value.to_string()),
    };
    error.masked_with(format!("`{value}`")).to_string()
}
