//! Removal of `allOf` and `oneOf`, which strict schemas do not support.
//!
//! Parts that must hold together are merged. `oneOf` becomes `anyOf`; that only one alternative may hold is checked
//! when the answer is validated.

use serde_json::Value;

use super::merge::merge;
use super::output::each_child;

/// Maximum number of parts merged in one schema; each may bring in others.
const MAX_PARTS: usize = 1_000;

/// Removes `allOf` and `oneOf` from a schema.
pub(super) fn join(schema: &mut Value) {
    let root = schema.clone();
    // The root schema is active from the start, under the name by which it refers to itself.
    Joiner { root: &root, active: vec![String::new()], remaining: MAX_PARTS }.node(schema);
}

struct Joiner<'a> {
    root: &'a Value,
    /// Definitions whose parts are being merged; one that contains itself adds nothing new.
    active: Vec<String>,
    remaining: usize,
}

impl Joiner<'_> {
    fn node(&mut self, schema: &mut Value) {
        let Value::Object(node) = schema else { return };
        if let Some(Value::Array(parts)) = node.shift_remove("allOf") {
            for part in parts {
                if let Some(Value::Object(part)) = self.part(part) {
                    merge(node, part);
                }
            }
        }
        if let Some(choices) = node.shift_remove("oneOf") {
            node.entry("anyOf").or_insert(choices);
        }
        each_child(node, "", &mut |child, _| self.node(child));
    }

    /// Returns a part in a form that can be merged with others.
    fn part(&mut self, part: Value) -> Option<Value> {
        self.remaining = self.remaining.checked_sub(1)?;
        let pointer = part.get("$ref").and_then(Value::as_str).and_then(|name| name.strip_prefix('#'));
        let Some(pointer) = pointer.map(str::to_owned) else {
            let mut part = part;
            self.node(&mut part);
            return Some(part);
        };
        if self.active.contains(&pointer) {
            return None;
        }
        let mut target = self.root.pointer(&pointer)?.clone();
        self.active.push(pointer);
        self.node(&mut target);
        self.active.pop();
        Some(target)
    }
}
