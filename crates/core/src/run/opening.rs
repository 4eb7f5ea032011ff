//! How a run begins: what the session was left with, and what the caller brings, made into messages.
//!
//! A session may have been left with open calls: callback tools that wait for their results, calls that wait for an
//! approval, or calls that a crash cut off. Opening answers every one of them, so that the model can always be asked,
//! or has the approved ones run first.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::calls::answering;
use super::prompt::{DENIED, INTERRUPTED, NOT_STARTED, SUPERSEDED, TOO_LATE};
use super::trouble::cancelled;
use super::work::{Answered, Work};
use super::{CallChange, Intent, LastRun, RunEnd};
use crate::{
    Approval, Content, Decision, Message, Settled, Timestamp, ToolCall, ToolFailure, ToolOutput, ToolResult,
    ToolRoute, Transcript,
};

/// How long an answer may be on its way after the user was last able to give it.
const GRACE: Duration = Duration::from_secs(30);

/// What the caller brings.
#[derive(Debug, Clone, Default)]
pub struct RunInput {
    /// What the user says; blank counts as nothing.
    pub prompt: Content,
    /// Results of callback tools.
    pub results: Vec<ToolResult>,
    /// What is said of calls that wait for an approval.
    pub approvals: Vec<Approval>,
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
    /// The calls of the last step, if some of them were approved.
    pub(super) work: Option<Work>,
    /// Whether the run before goes on, with what it has used up.
    pub(super) goes_on: bool,
}

/// Input that does not fit the session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpeningError {
    /// There is nothing to do.
    #[error("`prompt` is empty and there are no `tool_results` or `approvals`")]
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
    /// An approval is for no call that waits for one.
    #[error("no call that waits for an approval has the id `{}`; {}", short(.id), pending_list(.pending))]
    UnknownApproval {
        /// The id that was given.
        id: String,
        /// The ids that wait.
        pending: Vec<String>,
    },
    /// Two approvals are for one call.
    #[error("`approvals` says two things of `{}`", short(.0))]
    DuplicateApproval(String),
    /// Some calls would go on waiting.
    #[error("these calls are neither approved nor denied in `approvals`: {}", quoted(.0))]
    MissingApprovals(Vec<String>),
    /// Approved calls are run before anything new is begun.
    #[error("`prompt` must be empty when `approvals` approves a call; send it when that is done")]
    PromptWithApproval,
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
    let left = Left { stored: stored.iter().map(|call| (call.intent.id.as_str(), call)).collect(), now };
    let said = Said::about(&calls, &left, &input)?;
    let prompt_is_blank = input.prompt.is_blank();
    let (answered, goes_on) = (said.results.len() as u32, !said.decisions.is_empty());
    let fates: Vec<_> = calls.into_iter().map(|call| left.fate(call, &said)).collect();
    let mut messages = Vec::new();
    let (change, work) = if fates.is_empty() {
        (CallChange::None, None)
    } else if fates.iter().any(|(_, answered)| answered.is_none()) {
        let mut work = Work::taken_up(fates);
        let begin = |call: ToolCall| Intent { id: call.id, route: ToolRoute::Local, expires_at: None };
        let started = work.local().into_iter().map(begin).collect();
        (CallChange::Update { calls: started, results: work.take_unkept() }, Some(work))
    } else {
        let settled = fates.into_iter().filter_map(|(_, answered)| Some(answered?.settled)).collect();
        messages.extend(answering(settled, now));
        (CallChange::Close, None)
    };
    if !prompt_is_blank {
        messages.push(Arc::new(Message::User { content: input.prompt.clone(), created_at: now }));
    }
    Ok(Opening { messages, calls: change, prompt: input.prompt, answered, work, goes_on })
}

impl Opening {
    /// Puts an empty cancelled answer before the prompt if the latest run was interrupted or killed without one:
    /// otherwise the prompt would continue that run's.
    pub(super) fn separate(&mut self, transcript: &Transcript, latest: Option<LastRun>, now: Timestamp) {
        let is_cut_off = latest.is_none_or(|run| matches!(run.end, None | Some(RunEnd::Cancelled)));
        let prompt = self.messages.iter().position(|message| matches!(**message, Message::User { .. }));
        if let Some(at) = prompt.filter(|_| is_cut_off)
            && transcript.is_unanswered(&self.messages[..at])
        {
            self.messages.insert(at, cancelled(Vec::new(), now));
        }
    }
}

/// What the session was left with.
struct Left<'a> {
    stored: BTreeMap<&'a str, &'a StoredCall>,
    now: Timestamp,
}

impl Left<'_> {
    fn waits(&self, id: &str, route: ToolRoute) -> bool {
        self.stored.get(id).is_some_and(|call| call.intent.route == route && call.result.is_none())
    }

    /// Says whether somebody was asked to approve a call.
    fn awaits(&self, id: &str) -> bool {
        self.waits(id, ToolRoute::Approval) && self.expires_at(id).is_some()
    }

    fn expires_at(&self, id: &str) -> Option<Timestamp> {
        self.stored.get(id).and_then(|call| call.intent.expires_at)
    }

    /// Says what becomes of a call: its result, or none if it is to be run now.
    fn fate(&self, call: ToolCall, said: &Said) -> (ToolCall, Option<Answered>) {
        let new = |settled: Settled| Some(Answered { settled, kept: false });
        let failure = |failure, why: &str| new(ToolOutput::failure(failure, why).settling(&call.id));
        let answered = if let Some(result) = said.results.get(&call.id) {
            new(Settled::from(result.clone()))
        } else if self.awaits(&call.id) {
            match said.decisions.get(&call.id) {
                Some(Decision::Approve) if self.is_too_late(&call.id) => {
                    failure(ToolFailure::NotApproved, TOO_LATE)
                }
                Some(Decision::Approve) => None,
                Some(Decision::Deny(reason)) => failure(ToolFailure::NotApproved, &denied(reason.as_deref())),
                None => failure(ToolFailure::Superseded, SUPERSEDED),
            }
        } else if self.waits(&call.id, ToolRoute::Callback) {
            failure(ToolFailure::Superseded, SUPERSEDED)
        } else if self.waits(&call.id, ToolRoute::Approval) {
            failure(ToolFailure::Interrupted, NOT_STARTED)
        } else {
            let kept = self.stored.get(call.id.as_str()).and_then(|call| call.result.clone());
            let kept = kept.map(|settled| Answered { settled, kept: true });
            kept.or_else(|| failure(ToolFailure::Interrupted, INTERRUPTED))
        };
        (call, answered)
    }

    fn is_too_late(&self, id: &str) -> bool {
        let end = self.expires_at(id).and_then(|end| end.checked_add(GRACE).ok());
        end.is_some_and(|end| self.now > end)
    }
}

/// Tells the model that somebody denied a call.
fn denied(reason: Option<&str>) -> String {
    match reason.map(str::trim).filter(|reason| !reason.is_empty()) {
        Some(reason) => format!("{DENIED}: {reason}"),
        None => DENIED.to_owned(),
    }
}

/// What the caller says of the calls that wait for it.
struct Said {
    results: BTreeMap<String, ToolResult>,
    decisions: BTreeMap<String, Decision>,
}

impl Said {
    fn about(calls: &[ToolCall], left: &Left<'_>, input: &RunInput) -> Result<Self, OpeningError> {
        let prompt_is_blank = input.prompt.is_blank();
        if prompt_is_blank && input.results.is_empty() && input.approvals.is_empty() {
            return Err(OpeningError::Empty);
        }
        let ids = || calls.iter().map(|call| call.id.clone());
        let pending: Vec<_> = ids().filter(|id| left.waits(id, ToolRoute::Callback)).collect();
        let awaited: Vec<_> = ids().filter(|id| left.awaits(id)).collect();
        let said = Self {
            results: results(&pending, &input.results)?,
            decisions: decisions(&awaited, left, &input.approvals)?,
        };
        let missing = |ids: Vec<String>, given: &dyn Fn(&String) -> bool| -> Vec<String> {
            ids.into_iter().filter(|id| prompt_is_blank && !given(id)).collect()
        };
        let unanswered = missing(pending, &|id| said.results.contains_key(id));
        let undecided = missing(awaited, &|id| said.decisions.contains_key(id));
        match (unanswered.is_empty(), undecided.is_empty()) {
            (false, _) => Err(OpeningError::MissingResults(unanswered)),
            (_, false) => Err(OpeningError::MissingApprovals(undecided)),
            _ if !prompt_is_blank && said.decisions.values().any(|said| *said == Decision::Approve) => {
                Err(OpeningError::PromptWithApproval)
            }
            _ => Ok(said),
        }
    }
}

fn results(pending: &[String], given: &[ToolResult]) -> Result<BTreeMap<String, ToolResult>, OpeningError> {
    let mut brought = BTreeMap::new();
    for result in given {
        let id = result.tool_use_id.clone();
        if !pending.contains(&id) {
            return Err(OpeningError::UnknownCall { id, pending: pending.to_vec() });
        }
        if brought.insert(id.clone(), result.clone()).is_some() {
            return Err(OpeningError::DuplicateResult(id));
        }
    }
    Ok(brought)
}

fn decisions(
    awaited: &[String],
    left: &Left<'_>,
    given: &[Approval],
) -> Result<BTreeMap<String, Decision>, OpeningError> {
    let mut decisions = BTreeMap::new();
    for Approval { call, expires_at, decision } in given {
        let is_other = expires_at.is_some_and(|asked| left.expires_at(call) != Some(asked));
        if is_other || !awaited.contains(call) {
            return Err(OpeningError::UnknownApproval { id: call.clone(), pending: awaited.to_vec() });
        }
        if decisions.insert(call.clone(), decision.clone()).is_some() {
            return Err(OpeningError::DuplicateApproval(call.clone()));
        }
    }
    Ok(decisions)
}
