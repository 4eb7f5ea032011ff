//! Calls awaiting approval: asking the user through the client, and resuming the run.
//!
//! A run that needs an approval has ended and is fully stored. If the client can ask its user, it is asked to, and the
//! answer is sent to the session with `meerkat_resume`, as any client could do. Other clients get the reply unchanged.
//! So nothing waits longer than the call itself, and nothing is lost with the process.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use meerkat::operations::{AnyOperation, Call, find};
use meerkat::{ConfigAccess, Error, RunControl, Runtime};
use meerkat_contracts::PendingReply;
use rmcp::ErrorData;
use rmcp::model::{ClientCapabilities, InputRequest, InputRequiredResult, InputResponses, ServerRequest};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::call::Outcome;
use crate::protocol::{Request, TaskWork};

/// Arguments that apply only to one run and must be passed again when it resumes.
const PER_RUN: [&str; 8] = [
    "stream",
    "verbose",
    "output_schema",
    "structured_output_retries",
    "hooks_override",
    "budget_limits",
    "flow_tool_overlay",
    "turn_tool_overlay",
];

/// Maximum length of the arguments shown to the user.
const MAX_ARGUMENTS: usize = 2000;

/// Channel through which the user is asked.
pub(super) enum ApprovalChannel<'a> {
    /// Client that accepts questions while its request is in progress.
    Client(&'a Request),
    /// Client that polls a task.
    Task(&'a TaskWork),
}

/// Run that waits only for approvals.
pub(super) struct AwaitingApproval {
    session: Value,
    calls: Vec<ApprovalQuestion>,
}

struct ApprovalQuestion {
    id: String,
    question: Value,
    expires_at: Option<Timestamp>,
}

/// State that a modern client carries to its next round.
#[derive(Debug, Serialize, Deserialize)]
struct Round {
    session: Value,
    calls: Vec<(String, Value)>,
}

/// Returns `true` if the client can ask its user for approvals, and the user may give them.
pub(super) fn can_ask(runtime: &Runtime, client: &ClientCapabilities) -> bool {
    runtime.config_access() != ConfigAccess::Anonymous && supports_elicitation(client)
}

/// Returns `true` if the client can show its user a form.
fn supports_elicitation(client: &ClientCapabilities) -> bool {
    client.elicitation.as_ref().is_some_and(|can| can.form.is_some() || can.url.is_none())
}

impl AwaitingApproval {
    /// Parses the reply of a run. Returns `None` if tool results are pending too: the client then sends everything
    /// together.
    pub(super) fn from_outcome(outcome: &Outcome) -> Option<Self> {
        let reply = outcome.as_ref().ok()?;
        let is_only = reply.get("pending_tool_calls").and_then(Value::as_array).is_none_or(Vec::is_empty);
        if reply.get("status")? != PendingReply::APPROVAL_STATUS || !is_only {
            return None;
        }
        let session = reply.get("session_id")?.clone();
        let call = |approval| ApprovalQuestion::read(approval, session.as_str()?);
        let calls = reply.get("pending_approvals")?.as_array()?.iter().filter_map(call).collect();
        Some(Self { session, calls })
    }

    /// Asks the user about every call. Returns `None` if the user cannot be asked.
    async fn ask(&self, asker: &ApprovalChannel<'_>) -> Option<Vec<Value>> {
        let mut approvals = Vec::new();
        for call in &self.calls {
            approvals.push(decision((&call.id, &json!(call.expires_at)), &call.ask(asker).await?));
        }
        Some(approvals)
    }

    /// Returns the questions for a modern client as the result of its request.
    pub(super) fn round(&self, request: &Request) -> Result<InputRequiredResult, ErrorData> {
        let mut questions = BTreeMap::new();
        for (index, call) in self.calls.iter().enumerate() {
            let question: InputRequest = read(call.question.clone())?;
            questions.insert(key(index), question);
        }
        let calls = self.calls.iter().map(|call| (call.id.clone(), json!(call.expires_at))).collect();
        let state = request.seal(&Round { session: self.session.clone(), calls })?;
        Ok(InputRequiredResult::new(Some(questions), Some(state)))
    }
}

impl ApprovalQuestion {
    fn read(approval: &Value, session: &str) -> Option<Self> {
        let (tool, arguments) = (approval.get("tool_name")?.as_str()?, approval.get("args")?);
        let mut text = serde_json::to_string_pretty(arguments).unwrap_or_default();
        if text.len() > MAX_ARGUMENTS {
            text.truncate(text.floor_char_boundary(MAX_ARGUMENTS));
            text.push('…');
        }
        let expires_at = approval.get("expires_at").and_then(Value::as_str);
        Some(Self {
            id: approval.get("tool_use_id")?.as_str()?.to_owned(),
            question: question(&format!(
                "The agent of session {session} wants to call `{tool}` with:\n{text}\n\nAllow it?"
            )),
            expires_at: expires_at.and_then(|text| text.parse().ok()),
        })
    }

    /// Asks the user about the call, until it expires.
    async fn ask(&self, asker: &ApprovalChannel<'_>) -> Option<Value> {
        let left =
            self.expires_at.and_then(|end| Duration::try_from(end.duration_since(Timestamp::now())).ok());
        let answer = tokio::time::timeout(left.unwrap_or_default(), async {
            match asker {
                ApprovalChannel::Client(request) => {
                    let question: ServerRequest = read(self.question.clone()).ok()?;
                    tokio::select! {
                        answer = request.ask(question) => serde_json::to_value(answer.ok()?).ok(),
                        () = request.cancelled().cancelled() => None,
                    }
                }
                ApprovalChannel::Task(work) => {
                    let question: InputRequest = read(self.question.clone()).ok()?;
                    // A call id may be repeated in a later step, but a key must be unique.
                    let key = format!("{} {}", self.id, self.expires_at.unwrap_or_default());
                    work.ask(&key, question).await.ok()
                }
            }
        });
        answer.await.unwrap_or_else(|_| Some(json!({ "content": { "reason": "approval timed out" } })))
    }
}

/// Runs an operation to completion, asking the user for every approval on the way.
pub(super) async fn run_with_approvals(
    asker: Option<&ApprovalChannel<'_>>,
    (runtime, control): (&Runtime, &RunControl),
    arguments: &Value,
    mut outcome: Outcome,
) -> Outcome {
    while let (Some(asker), Some(waiting)) = (asker, AwaitingApproval::from_outcome(&outcome)) {
        let Some(approvals) = waiting.ask(asker).await else { break };
        let call = Call { runtime: runtime.clone(), control: control.clone() };
        let next = resume_arguments(arguments, waiting.session, approvals);
        outcome = resume()?.call(call, next).await.map(|reply| reply.json);
    }
    outcome
}

/// Builds the arguments that resume a run from the state and answers of a modern client's next round.
pub(super) fn next_round(
    request: &Request,
    (sealed, answers): (&str, Option<&InputResponses>),
    arguments: &Value,
) -> Result<Value, ErrorData> {
    let Round { session, calls } = request.open(sealed)?;
    let nothing = Value::Null;
    let answer = |index: usize| answers.and_then(|answers| answers.get(&key(index))).unwrap_or(&nothing);
    let approvals = calls.iter().enumerate();
    let approvals = approvals.map(|(index, (id, end))| decision((id, end), answer(index))).collect();
    Ok(resume_arguments(arguments, session, approvals))
}

/// Returns the operation that resumes a run.
pub(super) fn resume() -> Result<&'static AnyOperation, Error> {
    find("meerkat_resume").ok_or_else(|| Error::Internal("no operation `meerkat_resume`".to_owned()))
}

fn resume_arguments(arguments: &Value, session: Value, approvals: Vec<Value>) -> Value {
    let run_arguments =
        PER_RUN.iter().filter_map(|key| Some(((*key).to_owned(), arguments.get(key)?.clone())));
    let mut resumed: Map<_, _> = run_arguments.collect();
    resumed.insert("session_id".to_owned(), session);
    resumed.insert("approvals".to_owned(), Value::Array(approvals));
    Value::Object(resumed)
}

/// Returns the decision for a call. Anything but an explicit yes is a denial.
fn decision((id, expires_at): (&str, &Value), answer: &Value) -> Value {
    let approve = answer["action"] == "accept" && answer["content"]["approve"] == true;
    let reason = answer["content"]["reason"].as_str();
    json!({ "tool_use_id": id, "approve": approve, "expires_at": expires_at, "reason": reason })
}

fn key(index: usize) -> String {
    format!("approval_{index}")
}

fn question(message: &str) -> Value {
    json!({
        "method": "elicitation/create",
        "params": {
            "mode": "form",
            "message": message,
            "requestedSchema": {
                "type": "object",
                "properties": {
                    "approve": { "type": "boolean", "title": "Run it", "description": "Whether to allow the call." },
                    "reason": { "type": "string", "title": "Why not", "description": "Reason for the agent if you decline." },
                },
                "required": ["approve"],
            },
        },
    })
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}
