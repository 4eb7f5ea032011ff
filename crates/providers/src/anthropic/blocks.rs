//! The blocks of a response, assembled piece by piece.

use meerkat_core::{AssistantBlock, Delta, Provider};
use serde_json::{Map, Value, json};

use super::fast_path::Piece;
use crate::history::{META_PROVIDER, tag};

type Fields = Map<String, Value>;

/// A block being assembled.
#[derive(Debug)]
pub(super) enum Part {
    Text {
        text: String,
        citations: Vec<Value>,
    },
    Thinking {
        text: String,
        signature: String,
    },
    Redacted {
        data: String,
    },
    Call {
        id: String,
        name: String,
        input: Option<Value>,
        json: String,
        caller: Option<Value>,
    },
    /// Work of the provider's own tools, stored in the provider's format.
    Server {
        block: Fields,
        json: String,
    },
}

impl Part {
    /// Starts a block; returns it with the delta for any content it already has.
    pub(super) fn begin(mut block: Fields) -> Result<(Self, Option<Delta>), String> {
        let kind = string(&block, "type")?.to_owned();
        Ok(match kind.as_str() {
            "text" => {
                let text = optional_string(&block, "text")?;
                let citations = match block.shift_remove("citations") {
                    Some(Value::Array(citations)) => citations,
                    _ => Vec::new(),
                };
                (Self::Text { text: text.clone(), citations }, non_empty(text).map(Delta::Text))
            }
            "thinking" => {
                let text = optional_string(&block, "thinking")?;
                let signature = optional_string(&block, "signature")?;
                (Self::Thinking { text: text.clone(), signature }, non_empty(text).map(Delta::Reasoning))
            }
            "redacted_thinking" => (Self::Redacted { data: string(&block, "data")?.to_owned() }, None),
            "tool_use" => {
                let (id, name) = (string(&block, "id")?.to_owned(), string(&block, "name")?.to_owned());
                let input = block.shift_remove("input").filter(Value::is_object);
                let caller = block.shift_remove("caller").filter(is_indirect);
                (Self::Call { id, name, input, json: String::new(), caller }, None)
            }
            _ => (Self::Server { block, json: String::new() }, None),
        })
    }

    /// Adds a piece; returns its delta. Ignores unknown pieces.
    pub(super) fn extend(&mut self, delta: &Fields) -> Result<Option<Delta>, String> {
        let kind = string(delta, "type")?;
        Ok(match (kind, self) {
            ("text_delta", Self::Text { text, .. }) => append(text, string(delta, "text")?, Delta::Text),
            ("citations_delta", Self::Text { citations, .. }) => {
                let citation = delta.get("citation").filter(|citation| citation.is_object());
                citations.push(citation.ok_or("a `citations_delta` has no `citation`")?.clone());
                None
            }
            ("thinking_delta", Self::Thinking { text, .. }) => {
                append(text, string(delta, "thinking")?, Delta::Reasoning)
            }
            ("signature_delta", Self::Thinking { signature, .. }) => {
                string(delta, "signature")?.clone_into(signature);
                None
            }
            ("input_json_delta", Self::Call { json, .. } | Self::Server { json, .. }) => {
                json.push_str(string(delta, "partial_json")?);
                None
            }
            ("compaction_delta", Self::Server { block, .. }) => {
                let content = delta.get("content").cloned().unwrap_or_default();
                block.insert("content".to_owned(), content);
                None
            }
            (
                "text_delta" | "citations_delta" | "thinking_delta" | "signature_delta" | "input_json_delta"
                | "compaction_delta",
                part,
            ) => return Err(format!("unexpected `{kind}` in a `{}` block", part.kind())),
            _ => None,
        })
    }

    /// Adds a piece that matches the block, and returns its delta. Returns `None`, without adding anything, if it
    /// does not match.
    pub(super) fn grow(&mut self, piece: &Piece<'_>) -> Option<Option<Delta>> {
        match (piece, self) {
            (Piece::Text(piece), Self::Text { text, .. }) => Some(append(text, piece, Delta::Text)),
            (Piece::Thinking(piece), Self::Thinking { text, .. }) => {
                Some(append(text, piece, Delta::Reasoning))
            }
            (Piece::Json(piece), Self::Call { json, .. } | Self::Server { json, .. }) => {
                json.push_str(piece);
                Some(None)
            }
            _ => None,
        }
    }

    /// Returns `true` if the block has text for the user.
    pub(super) fn has_text(&self) -> bool {
        matches!(self, Self::Text { text, .. } if !text.trim().is_empty())
    }

    /// Builds the block; returns `None` if it is empty.
    pub(super) fn finish(self) -> Option<AssistantBlock> {
        Some(match self {
            Self::Text { text, .. } if text.is_empty() => return None,
            Self::Text { text, citations } => {
                let meta = (!citations.is_empty()).then(|| with_provider(json!({ "citations": citations })));
                AssistantBlock::Text { text, meta }
            }
            Self::Thinking { text, signature } if signature.is_empty() => {
                if text.is_empty() {
                    return None;
                }
                AssistantBlock::Reasoning { text, meta: None }
            }
            Self::Thinking { text, signature } => AssistantBlock::Reasoning {
                text,
                meta: Some(with_provider(json!({ "signature": signature }))),
            },
            Self::Redacted { data } => {
                let meta = json!({ META_PROVIDER: "anthropic_redacted", "data": data });
                AssistantBlock::Reasoning { text: String::new(), meta: Some(meta) }
            }
            Self::Call { id, name, input, json, caller } => {
                let args = arguments(input, json);
                let meta = caller.map(|caller| with_provider(json!({ "caller": caller })));
                AssistantBlock::ToolUse { id, name, args, meta }
            }
            Self::Server { block, json } => server(block, json),
        })
    }

    fn kind(&self) -> &str {
        match self {
            Self::Text { .. } => "text",
            Self::Thinking { .. } => "thinking",
            Self::Redacted { .. } => "redacted_thinking",
            Self::Call { .. } => "tool_use",
            Self::Server { block, .. } => block.get("type").and_then(Value::as_str).unwrap_or_default(),
        }
    }
}

fn server(mut block: Fields, json: String) -> AssistantBlock {
    if !json.is_empty() {
        let input = arguments(None, json);
        let input = if input.is_object() { input } else { json!({ "unreadable": input }) };
        block.insert("input".to_owned(), input);
    }
    // `null` carries no information here, and some such fields are rejected in requests.
    block.retain(|key, value| key == "content" || !value.is_null());
    let field = |key: &str| block.get(key).and_then(Value::as_str).map(str::to_owned);
    let id = field("id").or_else(|| field("tool_use_id"));
    let kind = field("type").unwrap_or_default();
    let name = field("name").unwrap_or_else(|| kind.trim_end_matches("_tool_result").to_owned());
    AssistantBlock::ServerToolContent {
        id,
        name,
        content: Value::Object(block),
        meta: Some(with_provider(json!({}))),
    }
}

/// Parses the arguments of a call; invalid JSON is stored verbatim, so that the model can see it.
fn arguments(input: Option<Value>, json: String) -> Value {
    if json.trim().is_empty() {
        return input.unwrap_or_else(|| json!({}));
    }
    match serde_json::from_str(&json) {
        Ok(arguments @ Value::Object(_)) => arguments,
        _ => Value::String(json),
    }
}

/// Returns `true` if a call was made by the provider's code execution, which must be stated when it is sent back.
fn is_indirect(caller: &Value) -> bool {
    caller.get("type").and_then(Value::as_str).is_some_and(|kind| kind != "direct")
}

fn with_provider(mut meta: Value) -> Value {
    meta[META_PROVIDER] = tag(Provider::Anthropic).into();
    meta
}

fn append(text: &mut String, piece: &str, delta: fn(String) -> Delta) -> Option<Delta> {
    text.push_str(piece);
    non_empty(piece.to_owned()).map(delta)
}

fn non_empty(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

fn string<'a>(fields: &'a Fields, key: &str) -> Result<&'a str, String> {
    let text = fields.get(key).and_then(Value::as_str);
    text.ok_or_else(|| format!("`{key}` is missing or not a string"))
}

/// Reads a string that may be absent.
fn optional_string(fields: &Fields, key: &str) -> Result<String, String> {
    match fields.get(key) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(_) => string(fields, key).map(str::to_owned),
    }
}
