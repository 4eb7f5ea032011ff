//! The blocks of an answer, put together piece by piece.

use meerkat_core::{AssistantBlock, Delta, Provider};
use serde_json::{Map, Value, json};

use super::quick::Piece;
use crate::history::{META_PROVIDER, tag};

type Fields = Map<String, Value>;

/// A block in the making.
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
    /// Work of the provider's own tools, kept as it came.
    Server {
        block: Fields,
        json: String,
    },
}

impl Part {
    /// Begins a block; returns with it what it already says.
    pub(super) fn begin(mut block: Fields) -> Result<(Self, Option<Delta>), String> {
        let kind = string(&block, "type")?.to_owned();
        Ok(match kind.as_str() {
            "text" => {
                let text = text_of(&block, "text")?;
                let citations = match block.shift_remove("citations") {
                    Some(Value::Array(citations)) => citations,
                    _ => Vec::new(),
                };
                (Self::Text { text: text.clone(), citations }, said(text).map(Delta::Text))
            }
            "thinking" => {
                let text = text_of(&block, "thinking")?;
                let signature = text_of(&block, "signature")?;
                (Self::Thinking { text: text.clone(), signature }, said(text).map(Delta::Reasoning))
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

    /// Adds a piece; returns what it says. Unknown pieces are passed over.
    pub(super) fn extend(&mut self, delta: &Fields) -> Result<Option<Delta>, String> {
        let kind = string(delta, "type")?;
        match (kind, self) {
            ("text_delta", Self::Text { text, .. }) => {
                let piece = string(delta, "text")?;
                text.push_str(piece);
                Ok(said(piece.to_owned()).map(Delta::Text))
            }
            ("citations_delta", Self::Text { citations, .. }) => {
                let citation = delta.get("citation").filter(|citation| citation.is_object());
                citations.push(citation.ok_or("a `citations_delta` has no `citation`")?.clone());
                Ok(None)
            }
            ("thinking_delta", Self::Thinking { text, .. }) => {
                let piece = string(delta, "thinking")?;
                text.push_str(piece);
                Ok(said(piece.to_owned()).map(Delta::Reasoning))
            }
            ("signature_delta", Self::Thinking { signature, .. }) => {
                string(delta, "signature")?.clone_into(signature);
                Ok(None)
            }
            ("input_json_delta", Self::Call { json, .. } | Self::Server { json, .. }) => {
                json.push_str(string(delta, "partial_json")?);
                Ok(None)
            }
            ("compaction_delta", Self::Server { block, .. }) => {
                let content = delta.get("content").cloned().unwrap_or_default();
                block.insert("content".to_owned(), content);
                Ok(None)
            }
            (
                "text_delta" | "citations_delta" | "thinking_delta" | "signature_delta" | "input_json_delta"
                | "compaction_delta",
                part,
            ) => Err(format!("a `{kind}` came inside a `{}` block", part.kind())),
            _ => Ok(None),
        }
    }

    /// Adds a piece that fits; returns what it says. `None`, and nothing added, for one that does not.
    pub(super) fn grow(&mut self, piece: &Piece<'_>) -> Option<Option<Delta>> {
        match (piece, self) {
            (Piece::Text(piece), Self::Text { text, .. }) => {
                text.push_str(piece);
                Some(said(piece.clone().into_owned()).map(Delta::Text))
            }
            (Piece::Thinking(piece), Self::Thinking { text, .. }) => {
                text.push_str(piece);
                Some(said(piece.clone().into_owned()).map(Delta::Reasoning))
            }
            (Piece::Json(piece), Self::Call { json, .. } | Self::Server { json, .. }) => {
                json.push_str(piece);
                Some(None)
            }
            _ => None,
        }
    }

    /// Says whether it has words for the user.
    pub(super) fn has_text(&self) -> bool {
        matches!(self, Self::Text { text, .. } if !text.trim().is_empty())
    }

    /// Makes the block; `None` where there is nothing in it.
    pub(super) fn finish(self) -> Option<AssistantBlock> {
        Some(match self {
            Self::Text { text, .. } if text.is_empty() => return None,
            Self::Text { text, citations } => {
                let meta = (!citations.is_empty()).then(|| own(json!({ "citations": citations })));
                AssistantBlock::Text { text, meta }
            }
            Self::Thinking { text, signature } if signature.is_empty() => {
                if text.is_empty() {
                    return None;
                }
                AssistantBlock::Reasoning { text, meta: None }
            }
            Self::Thinking { text, signature } => {
                AssistantBlock::Reasoning { text, meta: Some(own(json!({ "signature": signature }))) }
            }
            Self::Redacted { data } => {
                let meta = json!({ META_PROVIDER: "anthropic_redacted", "data": data });
                AssistantBlock::Reasoning { text: String::new(), meta: Some(meta) }
            }
            Self::Call { id, name, input, json, caller } => {
                let args = arguments(input, json);
                let meta = caller.map(|caller| own(json!({ "caller": caller })));
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
    // Nothing is said with `null` here, and not all of it may be sent back.
    block.retain(|key, value| key == "content" || !value.is_null());
    let field = |key: &str| block.get(key).and_then(Value::as_str).map(str::to_owned);
    let id = field("id").or_else(|| field("tool_use_id"));
    let kind = field("type").unwrap_or_default();
    let name = field("name").unwrap_or_else(|| kind.trim_end_matches("_tool_result").to_owned());
    AssistantBlock::ServerToolContent { id, name, content: Value::Object(block), meta: Some(own(json!({}))) }
}

/// Reads the arguments of a call; what cannot be read is kept as it came, so that the model can be told.
fn arguments(input: Option<Value>, json: String) -> Value {
    if json.trim().is_empty() {
        return input.unwrap_or_else(|| json!({}));
    }
    match serde_json::from_str(&json) {
        Ok(arguments @ Value::Object(_)) => arguments,
        _ => Value::String(json),
    }
}

/// Says whether a call was made by a program of the provider's, which must be said when it is sent back.
fn is_indirect(caller: &Value) -> bool {
    caller.get("type").and_then(Value::as_str).is_some_and(|kind| kind != "direct")
}

fn own(mut meta: Value) -> Value {
    meta[META_PROVIDER] = tag(Provider::Anthropic).into();
    meta
}

fn said(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

fn string<'a>(fields: &'a Fields, key: &str) -> Result<&'a str, String> {
    let text = fields.get(key).and_then(Value::as_str);
    text.ok_or_else(|| format!("`{key}` is missing or not a string"))
}

/// Reads a text that may be absent.
fn text_of(fields: &Fields, key: &str) -> Result<String, String> {
    match fields.get(key) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(_) => string(fields, key).map(str::to_owned),
    }
}
