//! Questions about Meerkat on the wire.

use meerkat_core::Provider;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Asks how to use Meerkat.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HelpRequest {
    /// The question.
    pub question: String,
    /// Text that the question is about, such as a prompt you want to run; it is not followed.
    pub prompt: Option<String>,
    /// `explain_only` (the default) or `plan_execution`, which lays out the steps to take.
    pub execution_mode: Option<HelpMode>,
    /// The model that answers; the config's default if left out.
    pub model: Option<String>,
    /// Who serves the model: `anthropic`, `openai`, `gemini` or `self_hosted`.
    pub provider: Option<Provider>,
    /// How long the answer may be, in tokens.
    pub max_tokens: Option<u32>,
}

/// What the answer is to be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HelpMode {
    /// An explanation.
    #[default]
    ExplainOnly,
    /// The steps to take.
    PlanExecution,
}
