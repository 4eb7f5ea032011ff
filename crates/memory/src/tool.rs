//! The tool `memory_search`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use meerkat_core::{BoxFuture, Invocation, Tool, ToolDef, ToolFailure, ToolImpact, ToolOutput, ToolSource};
use meerkat_store::{MemoryQuery, MemoryRow, Store};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::text::words;

/// How much of one memory is shown, in bytes.
const SHOWN: usize = 4000;
/// How many memories are shown if the model does not say, and how many at most.
const USUAL: u64 = 5;
const MOST: u64 = 20;

/// Whose memories an agent finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Those of its own session.
    Session,
    /// Those of every session of the realm.
    Realm,
}

/// Offers the search to the agent of one run, as soon as there is something to find.
pub struct Memory {
    tool: Arc<Search>,
    scope: Scope,
    remembers: AtomicBool,
}

impl Memory {
    /// Makes one for a session that remembers something already, or does not yet.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, scope: Scope) -> Self {
        Self {
            tool: Arc::new(Search { def: def(scope), store, scope }),
            scope,
            remembers: AtomicBool::new(false),
        }
    }

    /// Takes note that the session remembers something.
    pub fn awaken(&self) {
        self.remembers.store(true, Ordering::Relaxed);
    }
}

impl ToolSource for Memory {
    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let of_use = self.scope == Scope::Realm || self.remembers.load(Ordering::Relaxed);
        if of_use { vec![Arc::clone(&self.tool) as _] } else { Vec::new() }
    }
}

fn def(scope: Scope) -> ToolDef {
    let whose = match scope {
        Scope::Session => "of this conversation that is no longer shown to you",
        Scope::Realm => "of this and other conversations that is no longer shown to you",
    };
    ToolDef {
        name: "memory_search".to_owned(),
        description: format!(
            "Search the earlier part {whose}. Gives what was said, the best match first: score is 0 to 1, turn is the \
             place in the history. Use names, numbers and other rare words."
        ),
        input_schema: json!({
            "type": "object",
            "properties": {
                "query": { "type": "string", "description": "Words to look for; any of them counts." },
                "limit": { "type": "integer", "minimum": 1, "maximum": MOST, "default": USUAL },
            },
            "required": ["query"],
        }),
    }
}

struct Search {
    def: ToolDef,
    store: Arc<dyn Store>,
    scope: Scope,
}

#[derive(Deserialize)]
struct Arguments {
    query: String,
    limit: Option<u64>,
}

impl Tool for Search {
    fn def(&self) -> &ToolDef {
        &self.def
    }

    fn impact(&self) -> ToolImpact {
        ToolImpact::ReadOnly
    }

    fn call(&self, invocation: Invocation) -> BoxFuture<'_, ToolOutput> {
        Box::pin(async move {
            let arguments: Arguments = match serde_json::from_value(invocation.call.args) {
                Ok(arguments) => arguments,
                Err(error) => return ToolOutput::failure(ToolFailure::InvalidArguments, &error.to_string()),
            };
            let query = MemoryQuery {
                words: words(&arguments.query),
                session: (self.scope == Scope::Session).then_some(invocation.session_id),
                limit: arguments.limit.unwrap_or(USUAL).clamp(1, MOST),
            };
            match self.store.recall(query).await {
                Ok(rows) => ToolOutput::text(Value::Array(rows.iter().map(shown).collect()).to_string()),
                Err(error) => ToolOutput::failure(ToolFailure::ExecutionFailed, &error.to_string()),
            }
        })
    }
}

fn shown(row: &MemoryRow) -> Value {
    let content = &row.text[..row.text.floor_char_boundary(SHOWN.min(row.text.len()))];
    let score = (row.rank / (1.0 + row.rank) * 1000.0).round() / 1000.0;
    json!({ "content": content, "score": score, "turn": row.seq, "session_id": row.session })
}
