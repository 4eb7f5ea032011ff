//! Values that match a JSON Schema, and values that nearly do, from a fixed seed.

use serde_json::{Map, Number, Value, json};

/// A generator of values. The same seed always gives the same values.
pub struct Generator {
    state: u64,
    samples: fn(&str) -> Vec<&'static str>,
}

impl Generator {
    /// Creates a generator. `samples` returns texts that match a pattern or a format.
    #[must_use]
    pub fn new(seed: u64, samples: fn(&str) -> Vec<&'static str>) -> Self {
        Self { state: seed, samples }
    }

    /// Returns a number below `count`, by the algorithm SplitMix64.
    pub fn below(&mut self, count: usize) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) as usize % count
    }

    fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())].clone()
    }

    /// Returns a value that matches the schema.
    pub fn valid(&mut self, schema: &Value) -> Value {
        if let Some(value) = schema.get("const") {
            return value.clone();
        }
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            return self.pick(values);
        }
        for union in ["anyOf", "oneOf"] {
            if let Some(schemas) = schema.get(union).and_then(Value::as_array) {
                let mut value = self.pick(schemas);
                value = self.valid(&value);
                // A union next to properties adds its own.
                if let (Some(_), Value::Object(added)) = (schema.get("properties"), &value) {
                    let Value::Object(mut object) = self.object(schema) else { unreachable!() };
                    object.extend(added.clone());
                    return Value::Object(object);
                }
                return value;
            }
        }
        let kind = match &schema["type"] {
            Value::Array(kinds) => self.pick(kinds),
            kind => kind.clone(),
        };
        match kind.as_str() {
            Some("string") => self.text(schema),
            Some("integer") => self.integer(schema),
            Some("number") => self.number(schema),
            Some("boolean") => json!(self.below(2) == 1),
            Some("null") => Value::Null,
            Some("array") => self.array(schema),
            Some("object") => self.object(schema),
            _ => self.any(3),
        }
    }

    fn text(&mut self, schema: &Value) -> Value {
        let rule = ["pattern", "format"].into_iter().find_map(|rule| schema.get(rule)?.as_str());
        match rule {
            Some(rule) => {
                let samples = (self.samples)(rule);
                assert!(!samples.is_empty(), "no samples for `{rule}`");
                json!(self.pick(&samples))
            }
            None => {
                let most = schema.get("maxLength").and_then(Value::as_u64).unwrap_or(u64::MAX);
                let text = self.any_text();
                text.as_str().unwrap_or_default().chars().take(most as usize).collect::<String>().into()
            }
        }
    }

    fn any_text(&mut self) -> Value {
        let texts =
            ["", " ", "x", "say hi", "offline", "é\u{1b}[2J\u{202e}", "a, expected u64", "../../etc", "0"];
        match self.below(texts.len() + 1) {
            0 => json!("long \u{7}".repeat(60_000)),
            index => json!(texts[index - 1]),
        }
    }

    fn integer(&mut self, schema: &Value) -> Value {
        let least = schema.get("minimum").and_then(Value::as_u64).unwrap_or(0);
        let most = schema.get("maximum").and_then(Value::as_u64).unwrap_or(u64::MAX);
        let near = least.saturating_add(self.below(10) as u64).min(most);
        json!(self.pick(&[least, near, most]))
    }

    fn number(&mut self, schema: &Value) -> Value {
        let least = schema.get("minimum").and_then(Value::as_f64).unwrap_or(0.0);
        json!(self.pick(&[least, least + 1.0, least + 1e9]))
    }

    fn array(&mut self, schema: &Value) -> Value {
        let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0);
        let most = schema.get("maxItems").and_then(Value::as_u64).unwrap_or(least + 2);
        let length = least + self.below((most - least + 1) as usize) as u64;
        (0..length).map(|_| self.valid(&schema["items"])).collect()
    }

    fn object(&mut self, schema: &Value) -> Value {
        let mut object = Map::new();
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            if required.contains(&json!(name)) || self.below(8) == 0 {
                let value = self.valid(property);
                object.insert(name.clone(), value);
            }
        }
        match schema.get("additionalProperties") {
            Some(Value::Bool(false)) | None => {}
            Some(values) => {
                for name in ["key", "other"].into_iter().take(self.below(3)) {
                    let value = self.valid(values);
                    object.insert(name.to_owned(), value);
                }
            }
        }
        Value::Object(object)
    }

    /// Returns any JSON value.
    fn any(&mut self, depth: usize) -> Value {
        match self.below(if depth == 0 { 6 } else { 8 }) {
            0 => Value::Null,
            1 => json!(self.below(2) == 1),
            2 => json!(self.pick(&[0, 1, -1, i64::MAX, i64::MIN, 1 << 32])),
            3 => json!(self.pick(&[u64::MAX, 7])),
            4 => Value::Number(Number::from_f64([1.5, -0.0, 1e300][self.below(3)]).expect("a number")),
            5 => self.any_text(),
            6 => (0..self.below(3)).map(|_| self.any(depth - 1)).collect(),
            _ => {
                let name = self.any_text().as_str().unwrap_or_default().to_owned();
                json!({ name: self.any(depth - 1) })
            }
        }
    }

    /// Replaces, adds, or removes one part of a value.
    pub fn break_one(&mut self, value: &mut Value) {
        match value {
            Value::Object(object) if !object.is_empty() && self.below(5) > 0 => {
                let names: Vec<_> = object.keys().cloned().collect();
                let name = self.pick(&names);
                match self.below(8) {
                    0 => drop(object.shift_remove(&name)),
                    1 => {
                        let added = self.any_text().as_str().unwrap_or_default().to_owned();
                        let value = self.any(2);
                        object.insert(added, value);
                    }
                    _ => self.break_one(&mut object[&name]),
                }
            }
            Value::Array(items) if !items.is_empty() && self.below(3) > 0 => {
                let index = self.below(items.len());
                self.break_one(&mut items[index]);
            }
            value => *value = self.any(2),
        }
    }
}
