//! Tool calls, put together from the pieces in which they arrive.

use std::collections::{BTreeMap, BTreeSet};

use meerkat_core::AssistantBlock;
use serde_json::{Map, Value};

use super::quick;
use super::spoken::SpokenCall;
use crate::quick::Object;

/// The calls of one answer.
#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: Vec<Call>,
    /// Which call an index stands for.
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
    /// As JSON text, in pieces.
    Text(String),
    /// At once, as some servers send them.
    Whole(Value),
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
    args: Option<Said<'a>>,
}

/// Arguments as a piece has them.
#[derive(Clone, Copy)]
enum Said<'a> {
    Text(&'a str),
    Whole(&'a Map<String, Value>),
    Odd,
}

impl Calls {
    /// Says whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Takes a piece; the error says what is wrong with it.
    pub(super) fn piece(&mut self, piece: &Value) -> Result<(), String> {
        self.add(&Piece::read(piece)?)
    }

    /// Takes a piece as most servers send them.
    pub(super) fn grow(&mut self, call: &quick::Call<'_>) -> Result<(), String> {
        let Object(function) = &call.function;
        let args = function.arguments.0.as_deref().map(Said::Text);
        let (id, name) = (call.id.as_str(), function.name.as_str());
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

    /// Takes a call that was written as text.
    pub(super) fn spoken(&mut self, call: SpokenCall) {
        let args = Args::Whole(Value::Object(call.args));
        self.calls.push(Call { id: String::new(), name: call.name, args });
    }

    /// Returns the calls, each with an id of its own; the error says what is missing.
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
                let made = format!("call_{next}");
                next += 1;
                if taken.insert(made.clone()) {
                    id = made;
                }
            }
            used.insert(id.clone());
            Ok(AssistantBlock::ToolUse { id, name: call.name, args: call.args.finish(), meta: None })
        };
        self.calls.into_iter().map(block).collect()
    }

    /// Returns the call that a piece belongs to; makes it if the piece begins one.
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
            return Err("a piece of a tool call that never began".to_owned());
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
    /// Some servers give every call the same index; a new id with a name tells them apart.
    fn is_other(&self, piece: &Piece<'_>) -> bool {
        !piece.id.is_empty() && !self.id.is_empty() && self.id != piece.id && !piece.name.is_empty()
    }

    fn extend(&mut self, args: Option<Said<'_>>) -> Result<(), String> {
        match (&mut self.args, args) {
            (_, None) => Ok(()),
            (Args::Text(text), Some(Said::Text(more))) => {
                text.push_str(more);
                Ok(())
            }
            (Args::Text(text), Some(Said::Whole(whole))) if text.is_empty() => {
                self.args = Args::Whole(Value::Object(whole.clone()));
                Ok(())
            }
            (Args::Whole(_), Some(Said::Text(""))) => Ok(()),
            _ => Err("arguments of a tool call that do not fit together".to_owned()),
        }
    }
}

impl Args {
    fn finish(self) -> Value {
        match self {
            Self::Whole(value) => value,
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
            return Err("a tool call that is no object".to_owned());
        }
        let index = match piece.get("index") {
            None | Some(Value::Null) => None,
            Some(index) => Some(index.as_u64().ok_or("`index` of a tool call that is no number")?),
        };
        let function = piece.get("function").unwrap_or(&Value::Null);
        if !function.is_object() && !function.is_null() {
            return Err("`function` of a tool call that is no object".to_owned());
        }
        let args = match function.get("arguments") {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(Said::Text(text)),
            Some(Value::Object(whole)) => Some(Said::Whole(whole)),
            Some(_) => Some(Said::Odd),
        };
        Ok(Self { index, id: text(piece, "id")?, name: text(function, "name")?, args })
    }
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str, String> {
    match value.get(key) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(format!("`{key}` of a tool call that is no text")),
    }
}
