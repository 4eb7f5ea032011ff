//! Tool calls, assembled from the pieces in which they arrive.

use std::collections::{BTreeMap, BTreeSet};

use meerkat_core::AssistantBlock;
use serde_json::{Map, Value};

use super::fast_path;
use super::text_calls::TextToolCall;
use crate::fast_path::Object;

/// Calls of one response.
#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: Vec<Call>,
    /// Position of the call for each index.
    by_index: BTreeMap<u64, usize>,
}

#[derive(Debug, Default)]
struct Call {
    id: String,
    name: String,
    args: Args,
}

#[derive(Debug)]
enum Args {
    /// JSON text, received in pieces.
    Text(String),
    /// A complete value, as sent by some servers.
    Complete(Value),
}

impl Default for Args {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

/// A piece of a call.
struct Piece<'a> {
    index: Option<u64>,
    id: &'a str,
    name: &'a str,
    args: Option<RawArgs<'a>>,
}

/// Arguments in a piece.
#[derive(Clone, Copy)]
enum RawArgs<'a> {
    Text(&'a str),
    Complete(&'a Map<String, Value>),
    Invalid,
}

impl Calls {
    /// Returns `true` if there are no calls.
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Adds a piece. The error describes what is wrong with it.
    pub(super) fn piece(&mut self, piece: &Value) -> Result<(), String> {
        self.add(&Piece::read(piece)?)
    }

    /// Adds a piece in the format that most servers use.
    pub(super) fn grow(&mut self, call: &fast_path::Call<'_>) -> Result<(), String> {
        let Object(function) = &call.function;
        let args = function.arguments.0.as_deref().map(RawArgs::Text);
        let (id, name) = (&*call.id, &*function.name);
        self.add(&Piece { index: Some(call.index), id, name, args })
    }

    fn add(&mut self, piece: &Piece<'_>) -> Result<(), String> {
        let at = self.place(piece)?;
        let call = &mut self.calls[at];
        if call.id.is_empty() {
            piece.id.clone_into(&mut call.id);
        }
        // Some servers repeat the name with every piece.
        if call.name != piece.name {
            call.name.push_str(piece.name);
        }
        call.extend(piece.args)
    }

    /// Adds a call that was written as text.
    pub(super) fn add_text_call(&mut self, call: TextToolCall) {
        let args = Args::Complete(Value::Object(call.args));
        self.calls.push(Call { id: String::new(), name: call.name, args });
    }

    /// Returns the calls, each with a unique id. The error describes what is missing.
    pub(super) fn finish(self) -> Result<Vec<AssistantBlock>, String> {
        let mut taken: BTreeSet<String> = self.calls.iter().map(|call| call.id.clone()).collect();
        let mut used = BTreeSet::new();
        let mut next = 0;
        let block = |call: Call| {
            if call.name.is_empty() {
                return Err("a tool call without a name".to_owned());
            }
            let mut id = call.id;
            while id.is_empty() || used.contains(&id) {
                let generated = format!("call_{next}");
                next += 1;
                if taken.insert(generated.clone()) {
                    id = generated;
                }
            }
            used.insert(id.clone());
            Ok(AssistantBlock::ToolUse { id, name: call.name, args: call.args.finish(), meta: None })
        };
        self.calls.into_iter().map(block).collect()
    }

    /// Returns the position of the call that a piece belongs to; adds a call if the piece starts one.
    fn place(&mut self, piece: &Piece<'_>) -> Result<usize, String> {
        let known = match piece.index {
            Some(index) => self.by_index.get(&index).copied(),
            None if !piece.id.is_empty() => self.calls.iter().position(|call| call.id == piece.id),
            None if piece.name.is_empty() => self.calls.len().checked_sub(1),
            None => None,
        };
        if let Some(at) = known.filter(|at| !self.calls[*at].is_other(piece)) {
            return Ok(at);
        }
        if piece.name.is_empty() && piece.id.is_empty() {
            return Err("a piece of a tool call that was not started".to_owned());
        }
        self.calls.push(Call::default());
        let at = self.calls.len() - 1;
        if let Some(index) = piece.index {
            self.by_index.insert(index, at);
        }
        Ok(at)
    }
}

impl Call {
    /// Some servers give every call the same index; a new id with a name distinguishes them.
    fn is_other(&self, piece: &Piece<'_>) -> bool {
        !piece.id.is_empty() && !self.id.is_empty() && self.id != piece.id && !piece.name.is_empty()
    }

    fn extend(&mut self, args: Option<RawArgs<'_>>) -> Result<(), String> {
        match (&mut self.args, args) {
            (_, None) => Ok(()),
            (Args::Text(text), Some(RawArgs::Text(more))) => {
                text.push_str(more);
                Ok(())
            }
            (Args::Text(text), Some(RawArgs::Complete(object))) if text.is_empty() => {
                self.args = Args::Complete(Value::Object(object.clone()));
                Ok(())
            }
            (Args::Complete(_), Some(RawArgs::Text(""))) => Ok(()),
            _ => Err("inconsistent arguments of a tool call".to_owned()),
        }
    }
}

impl Args {
    fn finish(self) -> Value {
        match self {
            Self::Complete(value) => value,
            Self::Text(text) if text.trim().is_empty() => Value::Object(Map::new()),
            Self::Text(text) => match serde_json::from_str(&text) {
                Ok(Value::Null) => Value::Object(Map::new()),
                // Some servers write the arguments as JSON text inside JSON text.
                Ok(Value::String(inner)) => {
                    serde_json::from_str(&inner).ok().filter(Value::is_object).unwrap_or(Value::String(text))
                }
                Ok(value @ Value::Object(_)) => value,
                Ok(_) | Err(_) => Value::String(text),
            },
        }
    }
}

impl<'a> Piece<'a> {
    fn read(piece: &'a Value) -> Result<Self, String> {
        if !piece.is_object() {
            return Err("a tool call that is not an object".to_owned());
        }
        let index = match piece.get("index") {
            None | Some(Value::Null) => None,
            Some(index) => Some(index.as_u64().ok_or("`index` of a tool call that is not a number")?),
        };
        let function = piece.get("function").unwrap_or(&Value::Null);
        if !function.is_object() && !function.is_null() {
            return Err("`function` of a tool call that is not an object".to_owned());
        }
        let args = match function.get("arguments") {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(RawArgs::Text(text)),
            Some(Value::Object(object)) => Some(RawArgs::Complete(object)),
            Some(_) => Some(RawArgs::Invalid),
        };
        Ok(Self { index, id: text(piece, "id")?, name: text(function, "name")?, args })
    }
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str, String> {
    match value.get(key) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(format!("`{key}` of a tool call that is not a string")),
    }
}
