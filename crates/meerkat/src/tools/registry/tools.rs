//! Workers' functions as tools for agents, if the config allows them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use meerkat_core::{BoxFuture, Invocation, Tool, ToolDef, ToolFailure, ToolOutput, ToolSource};
use meerkat_registry::{BusError, is_reserved};
use serde_json::{Value, json};

use super::super::FixedTools;
use super::{HubLink, RealmRegistry};
use crate::config::RegistryConfig;
use crate::text::matches;

/// Maximum length of a tool name that all providers accept.
const MAX_NAME_LENGTH: usize = 64;

/// Creates tools for the functions that the config allows; returns `None` if no hub is running.
pub(super) async fn source(registry: &RealmRegistry, config: &RegistryConfig) -> Option<Arc<dyn ToolSource>> {
    let functions = registry.functions().await.ok()?;
    let mut tools: BTreeMap<String, Arc<dyn Tool>> = BTreeMap::new();
    for function in &functions {
        let Some(id) = function_id(function).filter(|id| is_allowed(id, &config.tools)) else { continue };
        let def = definition(id, function);
        let tool = Function { def, id: id.to_owned(), link: Arc::clone(&registry.link) };
        // If two functions map to the same tool name, the first one keeps it.
        tools.entry(tool.def.name.clone()).or_insert_with(|| Arc::new(tool));
    }
    (!tools.is_empty()).then(|| Arc::new(FixedTools(tools.into_values().collect())) as _)
}

/// Returns the id of an entry in a list of functions.
pub(super) fn function_id(function: &Value) -> Option<&str> {
    function.get("function_id").and_then(Value::as_str)
}

fn is_allowed(id: &str, patterns: &[String]) -> bool {
    !is_reserved(id)
        && !id.contains(char::is_whitespace)
        && patterns.iter().any(|pattern| matches(pattern, id))
}

fn definition(id: &str, function: &Value) -> ToolDef {
    let text = |name: &str| function.get(name).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    let description = text("description").map_or_else(|| format!("The function `{id}`."), str::to_owned);
    let schema = function.get("request_format").filter(|schema| is_object(schema));
    let input_schema = schema.cloned().unwrap_or_else(|| json!({ "type": "object", "properties": {} }));
    ToolDef { name: tool_name(id), description, input_schema }
}

/// Returns `true` if a schema is that of an object. Models send arguments only as objects.
fn is_object(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("object")
}

/// Converts a function id to a tool name that all providers accept.
fn tool_name(id: &str) -> String {
    let plain = |letter: char| {
        if letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_') { letter } else { '_' }
    };
    id.chars().map(plain).take(MAX_NAME_LENGTH).collect()
}

struct Function {
    def: ToolDef,
    id: String,
    link: Arc<HubLink>,
}

/// Timeout of a call. Runs cancel slow tools themselves; this only prevents a call from staying in the hub forever.
const CALL_TIMEOUT: Duration = Duration::from_secs(3600);

impl Tool for Function {
    fn def(&self) -> &ToolDef {
        &self.def
    }

    fn call(&self, invocation: Invocation) -> BoxFuture<'_, ToolOutput> {
        Box::pin(async move {
            match self.link.call(&self.id, invocation.call.args, CALL_TIMEOUT).await {
                Ok(Value::String(text)) => ToolOutput::text(text),
                Ok(answer) => ToolOutput::text(answer.to_string()),
                Err(error) => ToolOutput::failure(failure(&error), &error.to_string()),
            }
        })
    }
}

fn failure(error: &BusError) -> ToolFailure {
    match error {
        BusError::Timeout => ToolFailure::Timeout,
        BusError::Remote { code, .. } if code != "function_not_found" => ToolFailure::ExecutionFailed,
        _ => ToolFailure::Unavailable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_allow_functions_but_not_reserved_ones() {
        let allowed = |patterns: &[&str], id: &str| {
            is_allowed(id, &patterns.iter().map(|pattern| (*pattern).to_owned()).collect::<Vec<_>>())
        };
        assert!(allowed(&["demo::*"], "demo::guide"));
        assert!(allowed(&["x", "*::guide"], "demo::guide"));
        assert!(allowed(&["d*o::*de"], "demo::guide"));
        assert!(allowed(&["demo::guide"], "demo::guide"));
        assert!(allowed(&["*"], "anything"));
        assert!(!allowed(&[], "demo::guide"));
        assert!(!allowed(&["demo::"], "demo::guide"));
        assert!(!allowed(&["*x"], "demo::guide"));
        assert!(!allowed(&["demo::guide*x"], "demo::guide"));
        for reserved in ["state::set", "engine::x", "skills::register", "configuration::set", "a b"] {
            assert!(!allowed(&["*"], reserved), "{reserved}");
        }
    }

    #[test]
    fn definition_is_valid_for_every_provider() {
        let function = json!({
            "function_id": "demo::send mail/ä", "description": " ", "request_format": { "type": "string" },
        });
        let expected = ToolDef {
            name: "demo__send_mail__".to_owned(),
            description: "The function `demo::send mail/ä`.".to_owned(),
            input_schema: json!({ "type": "object", "properties": {} }),
        };
        assert_eq!(definition("demo::send mail/ä", &function), expected);
        assert_eq!(tool_name(&"x".repeat(80)).len(), 64);
    }
}
