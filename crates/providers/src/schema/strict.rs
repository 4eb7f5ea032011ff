//! What strict schemas may not say with `allOf` and `oneOf`, said without.
//!
//! Parts that must hold together are put together. Of a choice between alternatives, that only one may hold is
//! left to the judge of the answer.

use serde_json::Value;

use super::merge::merge;
use super::output::each_child;

/// How many parts are put together in one schema; each may bring others with it.
const MAX_PARTS: usize = 1_000;

/// Takes `allOf` and `oneOf` out of a schema.
pub(super) fn join(schema: &mut Value) {
    let root = schema.clone();
    // The whole schema is at work from the beginning, under the name by which it refers to itself.
    Joiner { root: &root, at_work: vec![String::new()], left: MAX_PARTS }.node(schema);
}

struct Joiner<'a> {
    root: &'a Value,
    /// The definitions that parts are being taken from; one that is part of itself says nothing new.
    at_work: Vec<String>,
    left: usize,
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

    /// Returns a part as it can be put together with others.
    fn part(&mut self, part: Value) -> Option<Value> {
        self.left = self.left.checked_sub(1)?;
        let pointer = part.get("$ref").and_then(Value::as_str).and_then(|name| name.strip_prefix('#'));
        let Some(pointer) = pointer.map(str::to_owned) else {
            let mut part = part;
            self.node(&mut part);
            return Some(part);
        };
        if self.at_work.contains(&pointer) {
            return None;
        }
        let mut target = self.root.pointer(&pointer)?.clone();
        self.at_work.push(pointer);
        self.node(&mut target);
        self.at_work.pop();
        Some(target)
    }
}
