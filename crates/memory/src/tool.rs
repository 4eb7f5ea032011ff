//! The tool `memory_search`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use meerkat_core::{BoxFuture, Invocation, Tool, ToolDef, ToolFailure, ToolImpact, ToolOutput, ToolSource};
use meerkat_store::{MemoryQuery, MemoryRow, Store};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::text::words;

/// Maximum number of bytes returned per memory.
const MAX_CONTENT_BYTES: usize = 4000;
/// Default number of memories to return.
const DEFAULT_LIMIT: u64 = 5;
/// Maximum number of memories to return.
const MAX_LIMIT: u64 = 20;

/// Memories that an agent can search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Memories of the agent's own session.
    Session,
    /// Memories of every session in the realm.
    Realm,
}

/// Provides the search tool to the agent of one run, once the session has memories.
pub struct Memory {
    tool: Arc<Search>,
    scope: Scope,
    remembers: AtomicBool,
}

impl Memory {
    /// Creates a tool source for a session that has no memories yet.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, scope: Scope) -> Self {
        Self {
            tool: Arc::new(Search { def: def(scope), store, scope }),
            scope,
            remembers: AtomicBool::new(false),
        }
    }

    /// Enables the tool, because the session has memories.
    pub fn enable(&self) {
        self.remembers.store(true, Ordering::Relaxed);
    }
}

impl ToolSource for Memory {
    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let is_enabled = self.scope == Scope::Realm || self.remembers.load(Ordering::Relaxed);
        if is_enabled { vec![Arc::clone(&self.tool) as _] } else { Vec::new() }
    }
}

fn def(scope: Scope) -> ToolDef {
    let part = match scope {
        Scope::Session => "of this conversation that is no longer shown to you",
        Scope::Realm => "of this and other conversations that is no longer shown to you",
    };
    ToolDef {
        name: "memory_search".to_owned(),
        description: format!(
            "Search the earlier part {part}. Returns what was said, best match first: score is 0 to 1, turn is the \
             position in the history. Use names, numbers, and other rare words."
        ),
        input_schema: json!({
            "type": "object",
            "properties": {
                "query": { "type": "string", "description": "Words to search for; any of them may match." },
                "limit": { "type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT },
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
                limit: arguments.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT),
            };
            match self.store.search_memories(query).await {
                Ok(rows) => ToolOutput::text(Value::Array(rows.iter().map(to_json).collect()).to_string()),
                Err(error) => ToolOutput::failure(ToolFailure::ExecutionFailed, &error.to_string()),
            }
        })
    }
}

fn to_json(row: &MemoryRow) -> Value {
    let content = &row.text[..row.text.floor_char_boundary(MAX_CONTENT_BYTES.min(row.text.len()))];
    let score = (row.rank / (1.0 + row.rank) * 1000.0).round() / 1000.0;
    json!({ "content": content, "score": score, "turn": row.seq, "session_id": row.session })
}
