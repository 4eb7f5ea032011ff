//! Cost of validating with a schema. A few references can make a small schema exponentially expensive.

use std::collections::HashMap;
use std::ptr;

use meerkat_core::percent_decoded;
use serde_json::{Map, Value};

/// Maximum number of schemas that a schema expands to when its references are replaced by their targets.
const MAX_EXPANDED: u64 = 20_000;
/// Maximum number of schemas within each other, references included.
const MAX_DEPTH: usize = 200;
/// Maximum number of schemas that are applied to parts of a value.
pub(super) const MAX_STEPS: u32 = 2_000_000;
/// Maximum number for which all errors are collected.
pub(super) const MAX_LISTED: u32 = 100_000;

/// Keywords whose value is data, and those whose value is only used by reference.
const SKIPPED: [&str; 6] = ["const", "enum", "default", "examples", "$defs", "definitions"];
/// Keywords whose value maps names to schemas.
const NAMED: [&str; 4] = ["properties", "patternProperties", "dependentSchemas", "dependencies"];
/// Keywords whose schemas apply to the same value.
const SAME_VALUE: [&str; 11] = [
    "$ref",
    "$dynamicRef",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "dependentSchemas",
    "dependencies",
];

/// Returns why a schema is too expensive to validate with, if it is.
///
/// A reference counts as many times as a validator follows it for one value. A recursive reference for a part of the
/// value counts once: the value bounds it, see [`is_expensive`].
pub(super) fn excess(root: &Value) -> Option<String> {
    match (Measure { root, known: HashMap::new(), path: Vec::new(), depth: 0 }).target(root, false) {
        Ok(size) if size <= MAX_EXPANDED => None,
        Ok(_) => Some(format!("is too large: it has over {MAX_EXPANDED} parts with its references expanded")),
        Err(reason) => Some(reason),
    }
}

struct Measure<'a> {
    root: &'a Value,
    /// Sizes of the targets of references, and whether they are recursive.
    known: HashMap<*const Value, (u64, bool)>,
    /// Targets being measured, and whether a reference below leads back to them.
    path: Vec<(*const Value, bool)>,
    depth: usize,
}

impl<'a> Measure<'a> {
    /// Returns the size of the target of a reference, which applies to a part of the referring target's value or to
    /// the same value.
    fn target(&mut self, target: &'a Value, is_part: bool) -> Result<u64, String> {
        let id = ptr::from_ref(target);
        if let Some(open) = self.path.iter().position(|(other, _)| *other == id) {
            self.path[open..].iter_mut().for_each(|(_, is_recursive)| *is_recursive = true);
            return Ok(1);
        }
        if let Some((size, is_recursive)) = self.known.get(&id) {
            return Ok(if *is_recursive && is_part { 1 } else { *size });
        }
        self.path.push((id, false));
        let size = self.schema(target, false)?;
        let is_recursive = self.path.pop().is_some_and(|(_, is_recursive)| is_recursive);
        self.known.insert(id, (size, is_recursive));
        Ok(size)
    }

    fn schema(&mut self, schema: &'a Value, is_part: bool) -> Result<u64, String> {
        let Value::Object(object) = schema else { return Ok(1) };
        if self.depth == MAX_DEPTH {
            return Err(format!(
                "is nested too deeply: over {MAX_DEPTH} levels with its references expanded"
            ));
        }
        self.depth += 1;
        let mut size = 1_u64;
        for (key, value) in object {
            let is_part = is_part || !SAME_VALUE.contains(&key.as_str());
            let parts: Vec<_> = match (key.as_str(), value) {
                (key, _) if SKIPPED.contains(&key) => continue,
                ("$id", Value::String(id)) if !ptr::eq(schema, self.root) => {
                    return Err(format!("has a part with the `$id` `{id}`; only its root may have one"));
                }
                (key, Value::Object(named)) if NAMED.contains(&key) => named.values().collect(),
                (_, Value::Object(_)) => vec![value],
                (_, Value::Array(parts)) => parts.iter().collect(),
                ("$ref" | "$dynamicRef", Value::String(reference)) => {
                    for target in targets(self.root, reference) {
                        size = size.saturating_add(self.target(target, is_part)?);
                    }
                    continue;
                }
                _ => continue,
            };
            for part in parts {
                size = size.saturating_add(self.schema(part, is_part)?);
            }
        }
        self.depth -= 1;
        Ok(size)
    }
}

/// Returns `true` if validating a value takes many steps, because recursive schemas apply to its parts several times.
pub(super) fn is_expensive(root: &Value, value: &Value, mut max_steps: u32) -> bool {
    visit(root, root, value, &mut max_steps, 0).is_none()
}

/// Counts the steps that checking a value takes at most. Returns `None` if there are too many.
fn visit(root: &Value, schema: &Value, value: &Value, steps: &mut u32, depth: usize) -> Option<()> {
    *steps = steps.checked_sub(1)?;
    let Value::Object(object) = schema else { return Some(()) };
    // A schema that refers to itself for the same value is followed once by the validator.
    if depth > MAX_DEPTH {
        return None;
    }
    for (key, keyword) in object {
        let (key, named) = (key.as_str(), keyword.as_object());
        if SAME_VALUE.contains(&key) {
            let parts: Vec<_> = match keyword {
                Value::String(reference) => targets(root, reference),
                Value::Array(parts) => parts.iter().collect(),
                Value::Object(named) if NAMED.contains(&key) => named.values().collect(),
                part => vec![part],
            };
            for part in parts {
                visit(root, part, value, steps, depth + 1)?;
            }
            continue;
        }
        match value {
            Value::Object(members) => {
                if let ("properties", Some(named)) = (key, named) {
                    for (part, member) in reached(named, members) {
                        visit(root, part, member, steps, 0)?;
                    }
                    continue;
                }
                for member in members.values() {
                    match key {
                        "patternProperties" => {
                            for part in named.into_iter().flat_map(Map::values) {
                                visit(root, part, member, steps, 0)?;
                            }
                        }
                        "additionalProperties" | "unevaluatedProperties" => {
                            visit(root, keyword, member, steps, 0)?;
                        }
                        _ => {}
                    }
                }
            }
            Value::Array(items)
                if ["items", "prefixItems", "contains", "unevaluatedItems"].contains(&key) =>
            {
                let first = std::slice::from_ref(keyword);
                for part in keyword.as_array().map_or(first, Vec::as_slice) {
                    for item in items {
                        visit(root, part, item, steps, 0)?;
                    }
                }
            }
            _ => {}
        }
    }
    Some(())
}

/// Returns the properties that are checked at most: the validator stops at one with the wrong constant, as the kind of
/// a variant, and takes either the order of the schema or that of the value.
fn reached<'a>(
    named: &'a Map<String, Value>,
    members: &'a Map<String, Value>,
) -> Vec<(&'a Value, &'a Value)> {
    let is_other = |name: &String| {
        let expected = named.get(name).and_then(|part| part.get("const"));
        expected.zip(members.get(name)).is_some_and(|(expected, found)| expected != found)
    };
    let first = |names: &Map<String, Value>| names.keys().position(&is_other).unwrap_or(usize::MAX);
    let (in_schema, in_value) = (first(named), first(members));
    let checked = members.iter().enumerate().filter_map(|(at, (name, member))| {
        let part = named.get(name)?;
        let position = named.keys().position(|key| key == name)?;
        (at < in_value || position < in_schema).then_some((part, member))
    });
    checked.collect()
}

/// Returns the schemas that a reference may lead to. The validator rejects one that leads outside.
fn targets<'a>(root: &'a Value, reference: &str) -> Vec<&'a Value> {
    let fragment = percent_decoded(reference.split_once('#').map_or("", |(_, fragment)| fragment));
    if fragment.is_empty() || fragment.starts_with('/') {
        return root.pointer(&fragment).into_iter().collect();
    }
    let mut anchored = Vec::new();
    let mut rest = vec![root];
    while let Some(value) = rest.pop() {
        let is_named = |key: &str| value.get(key).is_some_and(|name| *name == fragment);
        if is_named("$anchor") || is_named("$dynamicAnchor") {
            anchored.push(value);
        }
        match value {
            Value::Object(object) => rest.extend(object.values()),
            Value::Array(items) => rest.extend(items),
            _ => {}
        }
    }
    anchored
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Definitions `a0` to `a{last}`, each made of the one before by `link`.
    fn chain(last: u32, first: Value, link: impl Fn(Value) -> Value) -> Value {
        let mut defs = Map::from_iter([("a0".to_owned(), first)]);
        for level in 1..=last {
            defs.insert(format!("a{level}"), link(json!({"$ref": format!("#/$defs/a{}", level - 1)})));
        }
        json!({"$defs": defs, "$ref": format!("#/$defs/a{last}")})
    }

    #[test]
    fn repeated_references_multiply() {
        let twice = |part: Value| json!({"allOf": [part, part]});
        let expected = "is too large: it has over 20000 parts with its references expanded";
        let cases = [
            chain(40, json!({}), twice),
            chain(40, json!({}), |part| json!({"properties": {"x": twice(part.clone()), "enum": part}})),
            chain(40, json!({}), |part| json!({"if": part, "then": part, "else": part})),
            // A reference back to the start does not hide them.
            chain(40, json!({"properties": {"x": {"$ref": "#/$defs/a40"}}}), twice),
            json!({
                "$id": "https://example.com/s",
                "$defs": (0..40).map(|level| {
                    let below = json!({"$ref": format!("https://example.com/s#n{}", level + 1)});
                    (format!("d{level}"), json!({"$anchor": format!("n{level}"), "anyOf": [below, below]}))
                }).collect::<Map<_, _>>(),
                "$ref": "#n0",
            }),
        ];
        for schema in cases {
            assert_eq!(excess(&schema).as_deref(), Some(expected), "{schema}");
        }
        let deep = excess(&chain(300, json!({}), |part| json!({"items": part}))).unwrap();
        assert_eq!(deep, "is nested too deeply: over 200 levels with its references expanded");
        let inner = excess(&json!({"properties": {"a": {"$id": "b", "type": "null"}}})).unwrap();
        assert_eq!(inner, "has a part with the `$id` `b`; only its root may have one");
    }

    #[test]
    fn ordinary_large_schemas_are_accepted() {
        let leaf =
            |index: u32| json!({"type": "string", "description": format!("Value {index}."), "maxLength": 9});
        let wide: Map<_, _> = (0..200).map(|index| (format!("p{index}"), leaf(index))).collect();
        let address = json!({"$ref": "#/$defs/address"});
        let reference = |name: &str| json!({"$ref": format!("#/$defs/{name}")});
        let node = |name: &str, parts: &[&str]| {
            let maybe =
                |name: &&str| ((*name).to_owned(), json!({"anyOf": [reference(name), {"type": "null"}]}));
            let mut properties: Map<_, _> = parts.iter().map(maybe).collect();
            properties.insert("kind".to_owned(), json!({"const": name}));
            json!({"type": "object", "properties": properties})
        };
        let kinds = ["expression", "statement", "pattern", "type", "item"];
        let mut syntax = Map::new();
        for kind in kinds {
            let variants = (0..10).map(|index| node(&format!("{kind}{index}"), &kinds));
            syntax.insert(kind.to_owned(), json!({"oneOf": variants.collect::<Vec<_>>()}));
        }
        let schemas = [
            json!({"type": "object", "properties": wide, "required": ["p0", "p199"]}),
            json!({"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}),
            json!({
                "$defs": {"address": {"type": "object", "properties": wide}},
                "properties": {"home": address, "work": address, "others": {"type": "array", "items": address}},
            }),
            json!({"$defs": syntax, "$ref": "#/$defs/item"}),
            json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "a", "$ref": "a#/$defs/n",
                "$defs": {"n": {"$anchor": "n", "properties": {"next": {"$ref": "#n"}}}}}),
        ];
        for schema in schemas {
            assert_eq!(excess(&schema), None, "{schema}");
        }
    }

    #[test]
    fn values_that_take_many_steps_are_known() {
        let twice = json!({"allOf": [
            {"properties": {"x": {"$ref": "#"}}}, {"properties": {"x": {"$ref": "#"}}},
        ]});
        let nested = |depth| (0..depth).fold(json!(1), |value, _| json!({"x": value}));
        assert!(!is_expensive(&twice, &nested(5), MAX_STEPS));
        assert!(is_expensive(&twice, &nested(60), MAX_STEPS));
        // Variants with the same properties, told apart by a constant.
        let variant = |kind: &str| {
            json!({"properties": {
                "kind": {"const": kind}, "left": {"$ref": "#/$defs/e"}, "right": {"$ref": "#/$defs/e"},
            }})
        };
        let variants: Vec<_> = ["add", "sub", "mul", "div", "pow"].map(variant).into();
        let sum = json!({"$defs": {"e": {"anyOf": variants}}, "$ref": "#/$defs/e"});
        let leaf = json!({"kind": "none"});
        let tree =
            |kind| (0..8).fold(leaf.clone(), |part, _| json!({"kind": kind, "left": part, "right": part}));
        assert!(!is_expensive(&sum, &tree("pow"), MAX_STEPS));
        let long = (0..60).fold(leaf.clone(), |part, _| json!({"kind": "add", "left": part}));
        assert!(!is_expensive(&sum, &long, MAX_STEPS));
    }
}
