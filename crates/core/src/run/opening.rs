//! The start of a run: turns the session's stored state and the caller's input into messages.
//!
//! A session may have open calls: callback tools awaiting their results, calls awaiting approval, or calls that a crash
//! cut off. Opening the run gives every one of them a result, so that the model can always be called, or has the
//! approved ones run first.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::prompt::{APPROVAL_TIMED_OUT, DENIED, INTERRUPTED, NOT_STARTED, SUPERSEDED, cancelled_message};
use super::step_calls::{CallAnswer, StepCalls, result_messages};
use super::{CallChange, CallIntent, LastRun, RunEnd};
use crate::{
    Approval, CompletedCall, Content, Decision, Message, Timestamp, ToolCall, ToolFailure, ToolOutput,
    ToolResult, ToolRoute, Transcript, excerpt,
};

/// Time allowed for an approval to arrive after its deadline.
const GRACE: Duration = Duration::from_secs(30);

/// Input from the caller.
#[derive(Debug, Clone, Default)]
pub struct RunInput {
    /// Prompt from the user; a blank prompt counts as none.
    pub prompt: Content,
    /// Results of callback tools.
    pub results: Vec<ToolResult>,
    /// Decisions about calls that await approval.
    pub approvals: Vec<Approval>,
}

/// A stored open call.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredCall {
    /// The call.
    pub intent: CallIntent,
    /// Result of the call, if stored.
    pub result: Option<CompletedCall>,
}

/// The first messages of a run.
#[derive(Debug, Clone)]
pub struct Opening {
    /// Messages to append to the transcript.
    pub messages: Vec<Arc<Message>>,
    /// Change to the open calls.
    pub calls: CallChange,
    /// The user's message, which is blank if there is no prompt; it is then not among the messages.
    pub prompt: Arc<Message>,
    /// Number of callback results provided by the caller.
    pub answered: u32,
    /// Calls of the last step, if some of them were approved.
    pub(super) work: Option<StepCalls>,
    /// Whether the previous run continues, with the budget it has used.
    pub(super) continues_run: bool,
}

/// Input that is invalid for the session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// The input is empty.
    #[error("`prompt` is empty and there are no `tool_results` or `approvals`")]
    Empty,
    /// A result does not match any open call.
    #[error("no pending tool call has the id `{}`; {}", excerpt(.id), pending_list(.pending))]
    UnknownCall {
        /// Unknown id.
        id: String,
        /// Ids of the pending calls.
        pending: Vec<String>,
    },
    /// Two results have the same id.
    #[error("`tool_results` has two results for `{}`", excerpt(.0))]
    DuplicateResult(String),
    /// Some calls would remain without a result.
    #[error("these pending tool calls have no result: {}", quoted(.0))]
    MissingResults(Vec<String>),
    /// An approval does not match any call awaiting approval.
    #[error("no call awaiting approval has the id `{}`; {}", excerpt(.id), pending_list(.pending))]
    UnknownApproval {
        /// Unknown id.
        id: String,
        /// Ids of the pending calls.
        pending: Vec<String>,
    },
    /// Two approvals are for the same call.
    #[error("`approvals` has two decisions for `{}`", excerpt(.0))]
    DuplicateApproval(String),
    /// Some calls would remain undecided.
    #[error("these calls are neither approved nor denied in `approvals`: {}", quoted(.0))]
    MissingApprovals(Vec<String>),
    /// Approved calls must run before a new prompt is accepted.
    #[error("`prompt` must be empty when `approvals` approves a call; send the prompt in a later request")]
    PromptWithApproval,
}

fn pending_list(pending: &[String]) -> String {
    if pending.is_empty() { "none is pending".to_owned() } else { format!("pending: {}", quoted(pending)) }
}

fn quoted(ids: &[String]) -> String {
    ids.iter().take(20).map(|id| format!("`{}`", excerpt(id))).collect::<Vec<_>>().join(", ")
}

/// Opens a run on a session in its stored state. Moves the prompt, which may be long, from the input to the opening.
///
/// # Errors
/// Returns an error if the input is invalid; nothing has changed then, and the input still has its prompt.
pub fn open(
    transcript: &Transcript,
    stored: &[StoredCall],
    input: &mut RunInput,
    now: Timestamp,
) -> Result<Opening, InputError> {
    let calls = transcript.open_calls();
    let stored_calls =
        StoredCalls { stored: stored.iter().map(|call| (call.intent.id.as_str(), call)).collect(), now };
    let replies = CallerReplies::from_input(&calls, &stored_calls, input)?;
    let resolved: Vec<_> = calls.into_iter().map(|call| stored_calls.resolve_call(call, &replies)).collect();
    let mut messages = Vec::new();
    let (change, work) = if resolved.is_empty() {
        (CallChange::None, None)
    } else if resolved.iter().any(|(_, answered)| answered.is_none()) {
        let mut work = StepCalls::resumed(resolved);
        let begin = |call: ToolCall| CallIntent { id: call.id, route: ToolRoute::Local, expires_at: None };
        let started = work.local().into_iter().map(begin).collect();
        (CallChange::Update { calls: started, results: work.take_unsaved() }, Some(work))
    } else {
        let results = resolved.into_iter().filter_map(|(_, answered)| Some(answered?.result)).collect();
        messages.extend(result_messages(results, now));
        (CallChange::Close, None)
    };
    let is_blank = input.prompt.is_blank();
    let prompt = Arc::new(Message::User { content: std::mem::take(&mut input.prompt), created_at: now });
    if !is_blank {
        messages.push(Arc::clone(&prompt));
    }
    Ok(Opening {
        messages,
        calls: change,
        prompt,
        answered: replies.results.len() as u32,
        work,
        continues_run: !replies.decisions.is_empty(),
    })
}

impl Opening {
    /// Inserts an empty cancelled response before the prompt if the latest run was interrupted or killed without one:
    /// otherwise, the prompt would continue that run's prompt.
    pub(super) fn insert_separator(
        &mut self,
        transcript: &Transcript,
        latest: Option<LastRun>,
        now: Timestamp,
    ) {
        let is_cut_off = latest.is_none_or(|run| matches!(run.end, None | Some(RunEnd::Cancelled)));
        let prompt = self.messages.iter().position(|message| matches!(**message, Message::User { .. }));
        if let Some(at) = prompt.filter(|_| is_cut_off)
            && transcript.is_unanswered(&self.messages[..at])
        {
            self.messages.insert(at, cancelled_message(Vec::new(), now));
        }
    }
}

/// The stored calls of the session.
struct StoredCalls<'a> {
    stored: BTreeMap<&'a str, &'a StoredCall>,
    now: Timestamp,
}

impl StoredCalls<'_> {
    fn is_pending(&self, id: &str, route: ToolRoute) -> bool {
        self.stored.get(id).is_some_and(|call| call.intent.route == route && call.result.is_none())
    }

    /// Returns `true` if approval was requested for a call.
    fn awaits_approval(&self, id: &str) -> bool {
        self.is_pending(id, ToolRoute::Approval) && self.expires_at(id).is_some()
    }

    fn expires_at(&self, id: &str) -> Option<Timestamp> {
        self.stored.get(id).and_then(|call| call.intent.expires_at)
    }

    /// Determines the result of a call, or `None` if it is to be run now.
    fn resolve_call(&self, call: ToolCall, replies: &CallerReplies) -> (ToolCall, Option<CallAnswer>) {
        let failure = |failure, why: &str| {
            Some(CallAnswer::from(ToolOutput::failure(failure, why).into_completed_call(&call.id)))
        };
        let answered = if let Some(result) = replies.results.get(&call.id) {
            Some(CompletedCall::from(result.clone()).into())
        } else if self.awaits_approval(&call.id) {
            match replies.decisions.get(&call.id) {
                Some(Decision::Approve) if self.is_too_late(&call.id) => {
                    failure(ToolFailure::NotApproved, APPROVAL_TIMED_OUT)
                }
                Some(Decision::Approve) => None,
                Some(Decision::Deny(reason)) => failure(ToolFailure::NotApproved, &denied(reason.as_deref())),
                None => failure(ToolFailure::Superseded, SUPERSEDED),
            }
        } else if self.is_pending(&call.id, ToolRoute::Callback) {
            failure(ToolFailure::Superseded, SUPERSEDED)
        } else if self.is_pending(&call.id, ToolRoute::Approval) {
            failure(ToolFailure::Interrupted, NOT_STARTED)
        } else {
            let saved = self.stored.get(call.id.as_str()).and_then(|call| call.result.clone());
            let saved = saved.map(|result| CallAnswer { result, saved: true });
            saved.or_else(|| failure(ToolFailure::Interrupted, INTERRUPTED))
        };
        (call, answered)
    }

    fn is_too_late(&self, id: &str) -> bool {
        let end = self.expires_at(id).and_then(|end| end.checked_add(GRACE).ok());
        end.is_some_and(|end| self.now > end)
    }
}

/// Returns the message to the model that a call was denied.
fn denied(reason: Option<&str>) -> String {
    match reason.map(str::trim).filter(|reason| !reason.is_empty()) {
        Some(reason) => format!("{DENIED}: {reason}"),
        None => DENIED.to_owned(),
    }
}

/// The caller's results and decisions for pending calls.
struct CallerReplies {
    results: BTreeMap<String, ToolResult>,
    decisions: BTreeMap<String, Decision>,
}

impl CallerReplies {
    fn from_input(
        calls: &[ToolCall],
        stored_calls: &StoredCalls<'_>,
        input: &RunInput,
    ) -> Result<Self, InputError> {
        if input.prompt.is_blank() && input.results.is_empty() && input.approvals.is_empty() {
            return Err(InputError::Empty);
        }
        let ids = || calls.iter().map(|call| call.id.clone());
        let mut pending: Vec<_> =
            ids().filter(|id| stored_calls.is_pending(id, ToolRoute::Callback)).collect();
        let mut awaited: Vec<_> = ids().filter(|id| stored_calls.awaits_approval(id)).collect();
        let replies = Self {
            results: results(&pending, &input.results)?,
            decisions: decisions(&awaited, stored_calls, &input.approvals)?,
        };
        if !input.prompt.is_blank() {
            let approves = replies.decisions.values().any(|decision| *decision == Decision::Approve);
            return if approves { Err(InputError::PromptWithApproval) } else { Ok(replies) };
        }
        pending.retain(|id| !replies.results.contains_key(id));
        awaited.retain(|id| !replies.decisions.contains_key(id));
        match (pending.is_empty(), awaited.is_empty()) {
            (true, true) => Ok(replies),
            (true, false) => Err(InputError::MissingApprovals(awaited)),
            (false, _) => Err(InputError::MissingResults(pending)),
        }
    }
}

fn results(pending: &[String], provided: &[ToolResult]) -> Result<BTreeMap<String, ToolResult>, InputError> {
    let mut results = BTreeMap::new();
    for result in provided {
        let id = result.tool_use_id.clone();
        if !pending.contains(&id) {
            return Err(InputError::UnknownCall { id, pending: pending.to_vec() });
        }
        if results.insert(id.clone(), result.clone()).is_some() {
            return Err(InputError::DuplicateResult(id));
        }
    }
    Ok(results)
}

fn decisions(
    awaited: &[String],
    stored_calls: &StoredCalls<'_>,
    provided: &[Approval],
) -> Result<BTreeMap<String, Decision>, InputError> {
    let mut decisions = BTreeMap::new();
    for Approval { call, expires_at, decision } in provided {
        let is_other = expires_at.is_some_and(|expected| stored_calls.expires_at(call) != Some(expected));
        if is_other || !awaited.contains(call) {
            return Err(InputError::UnknownApproval { id: call.clone(), pending: awaited.to_vec() });
        }
        if decisions.insert(call.clone(), decision.clone()).is_some() {
            return Err(InputError::DuplicateApproval(call.clone()));
        }
    }
    Ok(decisions)
}
