//! Filters of observers: paths into a call, and conditions on the values there.

use std::cmp::Ordering;

use serde_json::Value;

use crate::error::CallError;

/// The parts of a call that a filter can read.
const ROOTS: [&str; 5] = ["input", "output", "error", "caller", "metadata"];

/// Conditions that must all hold; an empty list matches every call.
#[derive(Debug, Default)]
pub(super) struct Filter(Vec<Condition>);

#[derive(Debug)]
struct Condition {
    path: Vec<String>,
    operator: Operator,
    operand: Value,
}

/// A comparison with the operand, and which of its results are wanted.
#[derive(Debug, Clone, Copy)]
enum Operator {
    Equality(bool),
    Order(fn(Ordering) -> bool),
    Membership(bool),
    Existence,
}

impl Filter {
    /// Parses `{"input.amount": {"$gte": 500}}`.
    pub(super) fn new(filters: Option<&Value>) -> Result<Self, CallError> {
        let filters = match filters {
            None | Some(Value::Null) => return Ok(Self::default()),
            Some(Value::Object(filters)) => filters,
            Some(_) => return Err(invalid("a filter must be an object of paths")),
        };
        let mut conditions = Vec::new();
        for (path, wanted) in filters {
            let names: Vec<String> = path.split('.').map(str::to_owned).collect();
            if !ROOTS.contains(&names[0].as_str()) {
                let text = format!("`{path}` must start with one of {}", ROOTS.join(", "));
                return Err(CallError::new("INVALID_FILTER_PATH", text));
            }
            let Value::Object(wanted) = wanted else {
                return Err(invalid(format!("`{path}` needs an operator, as in {{\"$eq\": …}}")));
            };
            for (name, operand) in wanted {
                let operator = Operator::parse(name, operand);
                let operator =
                    operator.ok_or_else(|| invalid(format!("unknown operator `{name}` for `{path}`")))?;
                conditions.push(Condition { path: names.clone(), operator, operand: operand.clone() });
            }
        }
        Ok(Self(conditions))
    }

    pub(super) fn fits(&self, event: &Value) -> bool {
        self.0.iter().all(|condition| condition.holds(event))
    }
}

fn invalid(text: impl Into<String>) -> CallError {
    CallError::new("INVALID_FILTER", text)
}

impl Operator {
    fn parse(name: &str, operand: &Value) -> Option<Self> {
        match name {
            "$eq" => Some(Self::Equality(true)),
            "$ne" => Some(Self::Equality(false)),
            "$gt" => Some(Self::Order(Ordering::is_gt)),
            "$gte" => Some(Self::Order(Ordering::is_ge)),
            "$lt" => Some(Self::Order(Ordering::is_lt)),
            "$lte" => Some(Self::Order(Ordering::is_le)),
            "$in" if operand.is_array() => Some(Self::Membership(true)),
            "$nin" if operand.is_array() => Some(Self::Membership(false)),
            "$exists" if operand.is_boolean() => Some(Self::Existence),
            _ => None,
        }
    }
}

impl Condition {
    fn holds(&self, event: &Value) -> bool {
        let found = self.path.iter().try_fold(event, |value, name| match value {
            Value::Array(items) => items.get(name.parse::<usize>().ok()?),
            value => value.get(name),
        });
        match self.operator {
            Operator::Equality(wanted) => (found == Some(&self.operand)) == wanted,
            Operator::Order(fits) => found.and_then(|one| compare(one, &self.operand)).is_some_and(fits),
            Operator::Membership(wanted) => {
                let list = self.operand.as_array();
                found.is_some_and(|one| list.is_some_and(|list| list.contains(one))) == wanted
            }
            Operator::Existence => self.operand == Value::Bool(found.is_some()),
        }
    }
}

/// Compares two numbers or two strings; other values have no order.
fn compare(one: &Value, other: &Value) -> Option<Ordering> {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64()?.partial_cmp(&other.as_f64()?),
        (Value::String(one), Value::String(other)) => Some(one.cmp(other)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn call_matches_when_all_conditions_hold() {
        let event = json!({ "input": { "n": 5, "tags": ["a"], "who": "Ada" }, "output": null });
        for (filter, expected) in [
            (json!({}), true),
            (json!({ "input.n": { "$gte": 5, "$lt": 6 } }), true),
            (json!({ "input.n": { "$gt": 5 } }), false),
            (json!({ "input.n": { "$lte": "5" } }), false),
            (json!({ "input.who": { "$gte": "A" }, "input.tags.0": { "$eq": "a" } }), true),
            (json!({ "input.who": { "$in": ["Ada", "Bob"] } }), true),
            (json!({ "input.who": { "$nin": ["Ada"] } }), false),
            (json!({ "input.x": { "$ne": 1 } }), true),
            (json!({ "input.x": { "$exists": true } }), false),
            (json!({ "output": { "$eq": null } }), true),
            (json!({ "error": { "$exists": false } }), true),
        ] {
            assert_eq!(Filter::new(Some(&filter)).unwrap().fits(&event), expected, "{filter}");
        }
        assert!(Filter::new(None).unwrap().fits(&event));
    }

    #[test]
    fn invalid_filter_is_rejected() {
        for (filter, code) in [
            (json!([]), "INVALID_FILTER"),
            (json!({ "input.n": 5 }), "INVALID_FILTER"),
            (json!({ "input.n": { "$like": "x" } }), "INVALID_FILTER"),
            (json!({ "input.n": { "$in": 3 } }), "INVALID_FILTER"),
            (json!({ "n": { "$eq": 5 } }), "INVALID_FILTER_PATH"),
        ] {
            assert_eq!(Filter::new(Some(&filter)).unwrap_err().code, code, "{filter}");
        }
    }
}
