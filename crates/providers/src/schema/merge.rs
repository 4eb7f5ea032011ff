//! Merging of several schemas into one.

use serde_json::{Map, Number, Value};

use super::{Node, allowed_values, type_names, types};

/// Narrows a schema by another. Keywords that cannot be merged keep the first value.
pub(super) fn merge(ours: &mut Node, theirs: Node) {
    for (key, theirs) in theirs {
        match ours.get_mut(&key) {
            None => {
                ours.insert(key, theirs);
            }
            Some(ours) => narrow(&key, ours, theirs),
        }
    }
}

fn narrow(key: &str, ours: &mut Value, theirs: Value) {
    match (key, ours, theirs) {
        ("type", ours, theirs) => narrow_type(ours, &theirs),
        ("enum", Value::Array(ours), Value::Array(theirs))
            if ours.iter().any(|value| theirs.contains(value)) =>
        {
            ours.retain(|value| theirs.contains(value));
        }
        ("required", Value::Array(ours), Value::Array(theirs)) => {
            for name in theirs {
                if !ours.contains(&name) {
                    ours.push(name);
                }
            }
        }
        ("properties", Value::Object(ours), Value::Object(theirs)) => merge_properties(ours, theirs),
        ("items" | "additionalProperties", Value::Object(ours), Value::Object(theirs)) => merge(ours, theirs),
        ("additionalProperties", ours @ Value::Bool(true), theirs) => *ours = theirs,
        (
            "minimum" | "exclusiveMinimum" | "minLength" | "minItems",
            Value::Number(ours),
            Value::Number(theirs),
        ) if less(ours, &theirs) => *ours = theirs,
        (
            "maximum" | "exclusiveMaximum" | "maxLength" | "maxItems",
            Value::Number(ours),
            Value::Number(theirs),
        ) if less(&theirs, ours) => *ours = theirs,
        _ => {}
    }
}

fn merge_properties(ours: &mut Map<String, Value>, theirs: Map<String, Value>) {
    for (name, theirs) in theirs {
        match (ours.get_mut(&name), theirs) {
            (Some(Value::Object(ours)), Value::Object(theirs)) => merge(ours, theirs),
            (_, theirs) => {
                ours.insert(name, theirs);
            }
        }
    }
}

fn narrow_type(ours: &mut Value, theirs: &Value) {
    let (left, right) = (type_names(ours), type_names(theirs));
    let mut both: Vec<&str> = left.iter().filter(|name| right.contains(name)).copied().collect();
    let is_integer_of_number =
        |a: &[&str], b: &[&str]| a.contains(&"integer") && b.contains(&"number") && !b.contains(&"integer");
    if is_integer_of_number(&left, &right) || is_integer_of_number(&right, &left) {
        both.push("integer");
    }
    match both.as_slice() {
        [] => {}
        [only] => *ours = Value::from(*only),
        _ => *ours = Value::from(both),
    }
}

fn less(a: &Number, b: &Number) -> bool {
    a.as_f64() < b.as_f64()
}

/// Converts a choice between objects into one object that allows each of them; returns `None` if it is not an
/// object.
///
/// Properties that only some of the choices have become optional; those that all require stay required.
pub(super) fn flatten(mut node: Node) -> Option<Node> {
    let choices = match node.remove("anyOf") {
        Some(Value::Array(choices)) => choices,
        _ => Vec::new(),
    };
    let names = types(&node);
    if !names.is_empty() && !names.contains(&"object") {
        return None;
    }
    let is_open = names.is_empty() && !node.contains_key("properties") && !choices.is_empty();
    let objects: Vec<Node> = choices
        .into_iter()
        .filter_map(|choice| match choice {
            Value::Object(choice) => flatten(choice),
            _ => None,
        })
        .collect();
    if is_open && objects.is_empty() {
        return None;
    }
    if let Some(union) = objects.into_iter().reduce(either_object) {
        let is_relevant = |(key, _): &(String, Value)| key == "properties" || key == "required";
        merge(&mut node, union.into_iter().filter(is_relevant).collect());
    }
    Some(node)
}

fn either_object(mut ours: Node, mut theirs: Node) -> Node {
    match (ours.get_mut("required"), theirs.remove("required")) {
        (Some(Value::Array(ours)), Some(Value::Array(theirs))) => ours.retain(|name| theirs.contains(name)),
        _ => {
            ours.remove("required");
        }
    }
    match (ours.get_mut("properties"), theirs.remove("properties")) {
        (Some(Value::Object(ours)), Some(Value::Object(theirs))) => {
            for (name, theirs) in theirs {
                match ours.get_mut(&name) {
                    Some(ours) => *ours = either(ours.take(), theirs),
                    None => {
                        ours.insert(name, theirs);
                    }
                }
            }
        }
        (None, Some(properties)) => {
            ours.insert("properties".to_owned(), properties);
        }
        _ => {}
    }
    ours
}

fn either(ours: Value, theirs: Value) -> Value {
    if ours == theirs {
        return ours;
    }
    let (Value::Object(mut ours), Value::Object(theirs)) = (ours, theirs) else {
        return Value::Object(Node::new());
    };
    if ours.is_empty() || theirs.is_empty() {
        return Value::Object(Node::new());
    }
    if let (Some(left), Some(right)) = (allowed_values(&ours), allowed_values(&theirs)) {
        let both: Vec<Value> =
            left.iter().chain(right.iter().filter(|value| !left.contains(value))).cloned().collect();
        let same_type = ours.get("type") == theirs.get("type");
        ours.retain(|key, _| key == "description" || (key == "type" && same_type));
        ours.insert("enum".to_owned(), both.into());
        return Value::Object(ours);
    }
    let mut choices = Vec::new();
    for mut side in [ours, theirs] {
        let is_choice = side.len() == 1;
        match side.get_mut("anyOf") {
            Some(Value::Array(inner)) if is_choice => choices.append(inner),
            _ => choices.push(Value::Object(side)),
        }
    }
    let mut node = Node::new();
    node.insert("anyOf".to_owned(), unique(choices).into());
    Value::Object(node)
}

/// Removes duplicates.
pub(super) fn unique(values: Vec<Value>) -> Vec<Value> {
    let mut unique_values: Vec<Value> = Vec::with_capacity(values.len());
    for value in values {
        if !unique_values.contains(&value) {
            unique_values.push(value);
        }
    }
    unique_values
}
