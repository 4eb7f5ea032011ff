//! The caller's parameters for Gemini: known keys are mapped, all others go into the body unchanged.

use meerkat_core::Provider;
use serde_json::{Map, Value, json};

use crate::wire::is_reserved;

/// Server-side tools, by the caller's name and Gemini's.
const SERVER_TOOLS: [(&str, &str); 3] =
    [("google_search", "googleSearch"), ("url_context", "urlContext"), ("code_execution", "codeExecution")];

/// Keys that belong in `generationConfig`, by the caller's name and Gemini's.
const GENERATION: [(&str, &str); 6] = [
    ("top_k", "topK"),
    ("top_p", "topP"),
    ("seed", "seed"),
    ("stop_sequences", "stopSequences"),
    ("presence_penalty", "presencePenalty"),
    ("frequency_penalty", "frequencyPenalty"),
];

/// Keys that are handled elsewhere.
const HANDLED: [&str; 6] =
    ["thinking", "thinking_level", "thinking_budget", "include_thoughts", "temperature", "max_output_tokens"];

/// Objects of the body that a caller may name either way.
const OBJECTS: [(&str, &str); 3] = [
    ("generation_config", "generationConfig"),
    ("tool_config", "toolConfig"),
    ("system_instruction", "systemInstruction"),
];

/// A caller's parameters.
#[derive(Default)]
pub(super) struct Params(Map<String, Value>);

impl Params {
    /// Reads the parameters.
    pub(super) fn new(params: Option<&Value>) -> Self {
        let mut params = params.and_then(Value::as_object).cloned().unwrap_or_default();
        params.retain(|key, _| !is_reserved(Provider::Gemini, key));
        Self(params)
    }

    /// Returns the entries of `tools` that Gemini runs itself; each is enabled only by an object.
    pub(super) fn server_tools(&self) -> Vec<Value> {
        let entry = |(key, name): &(&str, &str)| {
            let options = self.0.get(*key)?.as_object()?;
            Some(json!({ *name: options }))
        };
        SERVER_TOOLS.iter().filter_map(entry).collect()
    }

    /// Returns the caller's temperature.
    pub(super) fn temperature(&self) -> Option<&Value> {
        self.0.get("temperature").filter(|value| value.is_number())
    }

    /// Returns the caller's output limit.
    pub(super) fn max_tokens(&self) -> Option<u32> {
        self.0.get("max_output_tokens")?.as_u64().and_then(|limit| u32::try_from(limit).ok())
    }

    /// Adds the keys that belong in `generationConfig`.
    pub(super) fn fill_generation(&self, config: &mut Map<String, Value>) {
        for (key, name) in GENERATION {
            if let Some(value) = self.0.get(key).filter(|value| !value.is_null()) {
                config.insert(name.to_owned(), value.clone());
            }
        }
        if let Some(thinking) = self.thinking() {
            config.insert("thinkingConfig".to_owned(), thinking);
        }
    }

    /// Returns `thinkingConfig`. Gemini accepts a level or a budget, not both, and no `includeThoughts` without
    /// thinking.
    fn thinking(&self) -> Option<Value> {
        let find = |key: &str| {
            let nested = || self.0.get("thinking").and_then(|thinking| thinking.get(key));
            self.0.get(key).filter(|value| !value.is_null()).or_else(nested)
        };
        let include_thoughts = find("include_thoughts").and_then(Value::as_bool).unwrap_or(true);
        if let Some(level) = find("thinking_level").and_then(Value::as_str) {
            let level = level.to_uppercase();
            return Some(json!({ "thinkingLevel": level, "includeThoughts": include_thoughts }));
        }
        Some(match find("thinking_budget").and_then(Value::as_i64)? {
            0 => json!({ "thinkingBudget": 0 }),
            budget => json!({ "thinkingBudget": budget, "includeThoughts": include_thoughts }),
        })
    }

    /// Merges every other key into the body.
    pub(super) fn fill_body(&self, body: &mut Map<String, Value>) {
        let is_known = |key: &str| {
            HANDLED.contains(&key) || SERVER_TOOLS.iter().chain(&GENERATION).any(|(own, _)| *own == key)
        };
        for (key, value) in self.0.iter().filter(|(key, value)| !is_known(key) && !value.is_null()) {
            let name = OBJECTS.iter().find(|(own, _)| own == key).map_or(key.as_str(), |(_, name)| name);
            merge(body.entry(name).or_insert(Value::Null), value);
        }
    }
}

/// Overrides one value with another; objects are merged.
fn merge(target: &mut Value, value: &Value) {
    match (target, value) {
        (Value::Object(target), Value::Object(value)) => {
            for (key, value) in value {
                merge(target.entry(key).or_insert(Value::Null), value);
            }
        }
        (target, value) => *target = value.clone(),
    }
}
