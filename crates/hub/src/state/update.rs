//! The operations of `state::update`, on values.

use serde::Deserialize;
use serde_json::{Map, Number, Value, json};

/// One step of an update.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(super) enum Operation {
    Set { path: Option<PathText>, value: Value },
    Merge { path: Option<PathText>, value: Value },
    Increment { path: Option<PathText>, by: Number },
    Decrement { path: Option<PathText>, by: Number },
    Append { path: Option<PathText>, value: Value },
    Remove { path: Option<PathText> },
}

/// Path in a value: the names of nested fields. Dots in a string separate names; each item of an array is one name.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum PathText {
    Dotted(String),
    Literal(Vec<String>),
}

fn names(path: Option<&PathText>) -> Vec<&str> {
    match path {
        None => Vec::new(),
        Some(PathText::Dotted(text)) if text.is_empty() => Vec::new(),
        Some(PathText::Dotted(text)) => text.split('.').collect(),
        Some(PathText::Literal(names)) => names.iter().map(String::as_str).collect(),
    }
}

/// Applies all valid steps; the others are reported by index.
pub(super) fn apply(mut value: Value, operations: &[Operation]) -> (Value, Vec<Value>) {
    let mut errors = Vec::new();
    for (index, operation) in operations.iter().enumerate() {
        if let Err((code, message)) = step(&mut value, operation) {
            errors.push(json!({ "op_index": index, "code": code, "message": message }));
        }
    }
    (value, errors)
}

type Problem = (&'static str, String);

fn step(value: &mut Value, operation: &Operation) -> Result<(), Problem> {
    match operation {
        Operation::Set { path, value: new } => *value_at(value, path.as_ref())? = new.clone(),
        Operation::Merge { path, value: new } => {
            let Value::Object(new) = new else {
                return Err(("INVALID_VALUE", "merge needs an object".to_owned()));
            };
            match value_at(value, path.as_ref())? {
                Value::Object(map) => map.extend(new.clone()),
                slot @ Value::Null => *slot = Value::Object(new.clone()),
                _ => return Err(("TYPE_MISMATCH", "the current value is not an object".to_owned())),
            }
        }
        Operation::Increment { path, by } => add(value_at(value, path.as_ref())?, by, 1)?,
        Operation::Decrement { path, by } => add(value_at(value, path.as_ref())?, by, -1)?,
        Operation::Append { path, value: new } => append(value_at(value, path.as_ref())?, new)?,
        Operation::Remove { path } => remove(value, path.as_ref()),
    }
    Ok(())
}

/// Returns the value at a path, creating objects along the way.
fn value_at<'a>(mut value: &'a mut Value, path: Option<&PathText>) -> Result<&'a mut Value, Problem> {
    for name in names(path) {
        if value.is_null() {
            *value = Value::Object(Map::new());
        }
        let Value::Object(map) = value else {
            return Err(("TYPE_MISMATCH", format!("`{name}` is not in an object")));
        };
        value = map.entry(name).or_insert(Value::Null);
    }
    Ok(value)
}

fn add(value: &mut Value, by: &Number, sign: i64) -> Result<(), Problem> {
    let old = match value {
        Value::Null => Number::from(0),
        Value::Number(number) => number.clone(),
        _ => return Err(("TYPE_MISMATCH", "the current value is not a number".to_owned())),
    };
    let integer_sum = || old.as_i64()?.checked_add(by.as_i64()?.checked_mul(sign)?);
    *value = match integer_sum() {
        Some(sum) => sum.into(),
        None => {
            let sign = if sign < 0 { -1.0 } else { 1.0 };
            json!(old.as_f64().unwrap_or_default() + sign * by.as_f64().unwrap_or_default())
        }
    };
    Ok(())
}

fn append(value: &mut Value, new: &Value) -> Result<(), Problem> {
    match (value, new) {
        (Value::Array(items), new) => items.push(new.clone()),
        (Value::String(text), Value::String(more)) => text.push_str(more),
        (slot @ Value::Null, new) => *slot = json!([new]),
        _ => return Err(("TYPE_MISMATCH", "the current value is neither an array nor a string".to_owned())),
    }
    Ok(())
}

fn remove(value: &mut Value, path: Option<&PathText>) {
    let names = names(path);
    let Some((last, before)) = names.split_last() else {
        *value = Value::Null;
        return;
    };
    let mut found = Some(value);
    for name in before {
        found = found.and_then(|value| value.get_mut(name));
    }
    if let Some(Value::Object(map)) = found {
        map.shift_remove(*last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn updated(value: Value, operations: Value) -> (Value, Vec<Value>) {
        apply(value, &serde_json::from_value::<Vec<Operation>>(operations).unwrap())
    }

    #[test]
    fn operations_update_values() {
        let cases = [
            (json!({"a": 2}), json!([{"type": "increment", "path": "a", "by": 3}]), json!({"a": 5})),
            (json!({"a": 2}), json!([{"type": "decrement", "path": "a", "by": 0.5}]), json!({"a": 1.5})),
            (json!(null), json!([{"type": "increment", "path": "n", "by": 1}]), json!({"n": 1})),
            (json!({}), json!([{"type": "append", "path": "l", "value": 1}]), json!({"l": [1]})),
            (json!([1]), json!([{"type": "append", "value": 2}]), json!([1, 2])),
            (json!("a"), json!([{"type": "append", "path": "", "value": "b"}]), json!("ab")),
            (json!({"a": 1}), json!([{"type": "merge", "value": {"b": 2}}]), json!({"a": 1, "b": 2})),
            (
                json!({}),
                json!([{"type": "merge", "path": ["a.b"], "value": {"c": 1}}]),
                json!({"a.b": {"c": 1}}),
            ),
            (json!({}), json!([{"type": "set", "path": "a.b", "value": 1}]), json!({"a": {"b": 1}})),
            (json!(1), json!([{"type": "set", "path": "", "value": 2}]), json!(2)),
            (
                json!({"a": {"b": 1, "c": 2}}),
                json!([{"type": "remove", "path": "a.b"}]),
                json!({"a": {"c": 2}}),
            ),
            (json!({"a": 1}), json!([{"type": "remove", "path": "x.y"}]), json!({"a": 1})),
        ];
        for (value, operations, expected) in cases {
            assert_eq!(updated(value, operations.clone()), (expected, Vec::new()), "{operations}");
        }
    }

    #[test]
    fn invalid_step_is_reported_and_others_apply() {
        let operations = json!([
            {"type": "increment", "path": "a", "by": 1},
            {"type": "set", "path": "b", "value": true},
        ]);
        let error =
            json!({"op_index": 0, "code": "TYPE_MISMATCH", "message": "the current value is not a number"});
        assert_eq!(updated(json!({"a": "x"}), operations), (json!({"a": "x", "b": true}), vec![error]));
    }
}
