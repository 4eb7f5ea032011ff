//! JSON Schema of the `provider_params` a model accepts.

use meerkat_core::Provider;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{CatalogEntry, ThinkingMode};

/// A parameter; its schema depends on the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Param {
    Thinking,
    ThinkingLevel,
    ThinkingBudget,
    Effort,
    ReasoningEffort,
    TopK,
    TopP,
    InferenceGeo,
    Compaction,
    Seed,
    FrequencyPenalty,
    PresencePenalty,
}

/// Returns the JSON Schema of the `provider_params` a model accepts.
#[must_use]
pub fn params_schema(entry: &CatalogEntry) -> Value {
    let name = |param: &Param| Some(serde_json::to_value(param).ok()?.as_str()?.to_owned());
    let property = |param: &Param| Some((name(param)?, param.schema(entry)));
    let properties: Map<String, Value> = entry.params.iter().filter_map(property).collect();
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

impl Param {
    fn schema(self, entry: &CatalogEntry) -> Value {
        match self {
            Self::Thinking if entry.provider == Provider::Gemini => json!({
                "type": "object",
                "properties": {
                    "thinking_level": Self::ThinkingLevel.schema(entry),
                    "thinking_budget": Self::ThinkingBudget.schema(entry),
                },
                "additionalProperties": false,
            }),
            Self::Thinking => thinking(&entry.thinking),
            Self::Effort | Self::ReasoningEffort | Self::ThinkingLevel => {
                json!({ "type": "string", "enum": entry.efforts })
            }
            Self::ThinkingBudget | Self::TopK | Self::Seed => json!({ "type": "integer" }),
            Self::TopP => json!({ "type": "number", "minimum": 0, "maximum": 1 }),
            Self::InferenceGeo => json!({ "type": "string" }),
            Self::Compaction => json!({}),
            Self::FrequencyPenalty | Self::PresencePenalty => json!({ "type": "number" }),
        }
    }
}

fn thinking(modes: &[ThinkingMode]) -> Value {
    let mut shapes: Vec<Value> = modes.iter().map(|mode| mode.schema()).collect();
    if shapes.len() == 1 { shapes.remove(0) } else { json!({ "anyOf": shapes }) }
}

impl ThinkingMode {
    fn schema(self) -> Value {
        match self {
            Self::Adaptive => json!({
                "type": "object",
                "properties": { "type": { "type": "string", "enum": ["adaptive"] } },
                "required": ["type"],
                "additionalProperties": false,
            }),
            Self::Enabled => json!({
                "type": "object",
                "properties": {
                    "type": { "type": "string", "enum": ["enabled"] },
                    "budget_tokens": { "type": "integer" },
                },
                "required": ["type", "budget_tokens"],
                "additionalProperties": false,
            }),
        }
    }
}
