//! Questions about Meerkat on the wire.

use meerkat_core::Provider;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::NOT_BLANK;

/// Question about how to use Meerkat.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HelpRequest {
    /// The question.
    #[schemars(regex(pattern = NOT_BLANK))]
    pub question: String,
    /// Text the question refers to, such as a prompt you want to run; it is treated as data, not instructions.
    pub prompt: Option<String>,
    /// `explain_only` (the default) or `plan_execution`, which lays out the steps to take.
    pub execution_mode: Option<HelpMode>,
    /// Model that answers; the config's default if omitted.
    pub model: Option<String>,
    /// Model provider: `anthropic`, `openai`, `gemini`, or `self_hosted`.
    #[schemars(with = "Option<String>", extend("enum" = ["anthropic", "openai", "gemini", "self_hosted", null]))]
    pub provider: Option<Provider>,
    /// Maximum length of the answer, in tokens.
    #[schemars(range(min = 1))]
    pub max_tokens: Option<u32>,
}

/// Form of the answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HelpMode {
    /// An explanation.
    #[default]
    ExplainOnly,
    /// The steps to take.
    PlanExecution,
}
