//! How a run begins: what the session was left with, and what the caller brings, made into messages.
//!
//! A session may have been left with open calls: callback tools that wait for their results, or calls that a
//! crash cut off. Opening answers every one of them, so that the model can always be asked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::calls::answering;
use super::prompt::{INTERRUPTED, SUPERSEDED};
use super::{CallChange, Intent};
use crate::{
    Content, Message, Settled, Timestamp, ToolFailure, ToolOutput, ToolResult, ToolRoute, Transcript,
};

/// What the caller brings.
#[derive(Debug, Clone, Default)]
pub struct RunInput {
    /// What the user says; blank counts as nothing.
    pub prompt: Content,
    /// Results of callback tools.
    pub results: Vec<ToolResult>,
}

/// An open call as it was stored.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredCall {
    /// The call.
    pub intent: Intent,
    /// Its result, if it was in.
    pub result: Option<Settled>,
}

/// The first messages of a run.
#[derive(Debug, Clone)]
pub struct Opening {
    /// What to add to the transcript.
    pub messages: Vec<Arc<Message>>,
    /// What happens to the open calls.
    pub calls: CallChange,
    /// What the user said.
    pub prompt: Content,
    /// How many callback results the caller brought.
    pub answered: u32,
}

/// Input that does not fit the session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpeningError {
    /// There is nothing to do.
    #[error("`prompt` is empty and there are no `tool_results`")]
    Empty,
    /// A result answers no open call.
    #[error("no pending tool call has the id `{}`; {}", short(.id), pending_list(.pending))]
    UnknownCall {
        /// The id that was given.
        id: String,
        /// The ids that wait.
        pending: Vec<String>,
    },
    /// Two results answer one call.
    #[error("`tool_results` has two results for `{}`", short(.0))]
    DuplicateResult(String),
    /// Some calls would stay open.
    #[error("these pending tool calls have no result: {}", quoted(.0))]
    MissingResults(Vec<String>),
}

/// Cuts an id that somebody else chose.
fn short(id: &str) -> String {
    id.chars().take(80).collect()
}

fn pending_list(pending: &[String]) -> String {
    if pending.is_empty() { "none is pending".to_owned() } else { format!("pending: {}", quoted(pending)) }
}

fn quoted(ids: &[String]) -> String {
    ids.iter().take(20).map(|id| format!("`{}`", short(id))).collect::<Vec<_>>().join(", ")
}

/// Begins a run on a session as it was left.
///
/// # Errors
/// Refuses input that does not fit; nothing has changed then.
pub fn open(
    transcript: &Transcript,
    stored: &[StoredCall],
    input: RunInput,
    now: Timestamp,
) -> Result<Opening, OpeningError> {
    let calls = transcript.open_calls();
    let stored: BTreeMap<_, _> = stored.iter().map(|call| (call.intent.id.as_str(), call)).collect();
    let waits = |id: &str| {
        stored.get(id).is_some_and(|call| call.intent.route == ToolRoute::Callback && call.result.is_none())
    };
    let pending: Vec<_> = calls.iter().map(|call| call.id.clone()).filter(|id| waits(id)).collect();
    let prompt_is_blank = input.prompt.is_blank();
    let mut brought = accept(&pending, input.results, prompt_is_blank)?;
    let answered = brought.len() as u32;

    let mut messages = Vec::new();
    if !calls.is_empty() {
        let settle = |id: String| {
            if let Some(result) = brought.remove(&id) {
                return Settled::from(result);
            }
            if waits(&id) {
                return ToolOutput::failure(ToolFailure::Superseded, SUPERSEDED).settling(id);
            }
            let kept = stored.get(id.as_str()).and_then(|call| call.result.clone());
            kept.unwrap_or_else(|| ToolOutput::failure(ToolFailure::Interrupted, INTERRUPTED).settling(id))
        };
        let settled = calls.iter().map(|call| call.id.clone()).map(settle).collect();
        messages.extend(answering(settled, now));
    }
    let calls = if calls.is_empty() { CallChange::None } else { CallChange::Close };
    if !prompt_is_blank {
        messages.push(Arc::new(Message::User { content: input.prompt.clone(), created_at: now }));
    }
    Ok(Opening { messages, calls, prompt: input.prompt, answered })
}

fn accept(
    pending: &[String],
    results: Vec<ToolResult>,
    prompt_is_blank: bool,
) -> Result<BTreeMap<String, ToolResult>, OpeningError> {
    if prompt_is_blank && results.is_empty() {
        return Err(OpeningError::Empty);
    }
    let mut brought = BTreeMap::new();
    for result in results {
        let id = result.tool_use_id.clone();
        if !pending.contains(&id) {
            return Err(OpeningError::UnknownCall { id, pending: pending.to_vec() });
        }
        if brought.insert(id.clone(), result).is_some() {
            return Err(OpeningError::DuplicateResult(id));
        }
    }
    let given: BTreeSet<_> = brought.keys().collect();
    let missing: Vec<_> = pending.iter().filter(|id| !given.contains(id)).cloned().collect();
    if prompt_is_blank && !missing.is_empty() {
        return Err(OpeningError::MissingResults(missing));
    }
    Ok(brought)
}
