//! Calls awaiting approval: asking the user through the client.
//!
//! A run that needs an approval is fully stored while the user is asked, so nothing is lost with the process. The client
//! of an older revision is asked during its call, and the client of a task when it polls; the run then continues. A
//! modern client gets the questions as the result of its call, and its next call continues the run with the answers.
//! Other clients get the reply unchanged. No question outlives the call or its own expiry.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use meerkat::ports::BoxFuture;
use meerkat::{Approval, ApprovalRequest, Approver, ConfigAccess, Decision, Runtime, SessionId};
use meerkat_contracts::PendingApproval;
use rmcp::ErrorData;
use rmcp::model::{ClientCapabilities, InputRequest, InputRequiredResult, InputResponses, ServerRequest};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::protocol::{Request, TaskWork};

/// Maximum length of the arguments shown to the user.
const MAX_ARGUMENTS: usize = 2000;

/// Prompt for approvals through the client.
pub(super) enum ClientPrompt {
    /// Client that accepts questions while its request is in progress.
    Request(Box<Request>),
    /// Client that polls a task, once the task has started.
    Task(watch::Receiver<Option<TaskWork>>),
}

/// State that a modern client carries to its next round.
#[derive(Debug, Serialize, Deserialize)]
struct Round {
    session: SessionId,
    calls: Vec<(String, Timestamp)>,
}

/// Returns `true` if the client can ask its user for approvals, and the user may give them.
pub(super) fn can_ask(runtime: &Runtime, client: &ClientCapabilities) -> bool {
    runtime.config_access() != ConfigAccess::Anonymous && supports_elicitation(client)
}

/// Returns `true` if the client can show its user a form.
fn supports_elicitation(client: &ClientCapabilities) -> bool {
    client.elicitation.as_ref().is_some_and(|can| can.form.is_some() || can.url.is_none())
}

impl Approver for ClientPrompt {
    fn decide<'a>(
        &'a self,
        session: SessionId,
        calls: &'a [ApprovalRequest],
    ) -> BoxFuture<'a, Option<Vec<Approval>>> {
        Box::pin(async move {
            let mut approvals = Vec::new();
            for ApprovalRequest { call, expires_at } in calls {
                let left = Duration::try_from(expires_at.duration_since(Timestamp::now()));
                // A call id may be repeated in a later step, but a key must be unique.
                let asking =
                    self.ask(format!("{} {expires_at}", call.id), question(session, &call.name, &call.args));
                let decision = match tokio::time::timeout(left.unwrap_or_default(), asking).await {
                    Ok(answer) => decision(&answer?),
                    Err(_) => Decision::Deny(Some("approval timed out".to_owned())),
                };
                approvals.push(Approval { call: call.id.clone(), expires_at: Some(*expires_at), decision });
            }
            Some(approvals)
        })
    }
}

impl ClientPrompt {
    /// Asks a question under a key. Returns `None` if the user cannot be asked.
    async fn ask(&self, key: String, question: Value) -> Option<Value> {
        match self {
            Self::Request(request) => {
                let question: ServerRequest = read(question).ok()?;
                tokio::select! {
                    answer = request.ask(question) => serde_json::to_value(answer.ok()?).ok(),
                    () = request.cancelled().cancelled() => None,
                }
            }
            Self::Task(task) => {
                let work = task.clone().wait_for(Option::is_some).await.ok()?.clone()?;
                tokio::select! {
                    answer = work.ask(&key, read(question).ok()?) => answer.ok(),
                    () = work.cancelled().cancelled() => None,
                }
            }
        }
    }
}

/// Returns the questions for a modern client as the result of its request.
pub(super) fn round(
    request: &Request,
    session: SessionId,
    awaiting: &[PendingApproval],
) -> Result<InputRequiredResult, ErrorData> {
    let mut questions = BTreeMap::new();
    for (index, PendingApproval { call, .. }) in awaiting.iter().enumerate() {
        let question: InputRequest = read(question(session, &call.tool_name, &call.args))?;
        questions.insert(key(index), question);
    }
    let calls =
        awaiting.iter().map(|PendingApproval { call, expires_at }| (call.tool_use_id.clone(), *expires_at));
    let state = request.seal(&Round { session, calls: calls.collect() })?;
    Ok(InputRequiredResult::new(Some(questions), Some(state)))
}

/// Returns the session and the decisions in the next round of a modern client.
pub(super) fn next_round(
    request: &Request,
    sealed: &str,
    answers: Option<&InputResponses>,
) -> Result<(SessionId, Vec<Approval>), ErrorData> {
    let Round { session, calls } = request.open(sealed)?;
    let answer = |index: usize| answers.and_then(|answers| answers.get(&key(index))).unwrap_or(&Value::Null);
    let approval = |(index, (call, expires_at))| Approval {
        call,
        expires_at: Some(expires_at),
        decision: decision(answer(index)),
    };
    Ok((session, calls.into_iter().enumerate().map(approval).collect()))
}

/// Returns the decision in an answer. Anything but an explicit yes is a denial.
fn decision(answer: &Value) -> Decision {
    if answer["action"] == "accept" && answer["content"]["approve"] == true {
        return Decision::Approve;
    }
    Decision::Deny(answer["content"]["reason"].as_str().map(str::to_owned))
}

fn key(index: usize) -> String {
    format!("approval_{index}")
}

fn question(session: SessionId, tool: &str, arguments: &Value) -> Value {
    let mut text = serde_json::to_string_pretty(arguments).unwrap_or_default();
    if text.len() > MAX_ARGUMENTS {
        text.truncate(text.floor_char_boundary(MAX_ARGUMENTS));
        text.push('…');
    }
    json!({
        "method": "elicitation/create",
        "params": {
            "mode": "form",
            "message": format!("The agent of session {session} wants to call `{tool}` with:\n{text}\n\nAllow it?"),
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
