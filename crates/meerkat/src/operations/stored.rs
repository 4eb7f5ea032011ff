//! The reply of a run that ended in another process, rebuilt from the stored session.

use meerkat_core::run::{Completion, Outcome, RunEnd, RunReport};
use serde_json::Value;

use super::turn::reply;
use super::{JsonReply, Resume};
use crate::sessions::{RunResult, SessionView};
use crate::{Error, Runtime};

/// Returns the reply of a session's latest run, which completed or is pending. The reply of a completed run has no
/// counts of its steps and calls, because they are not stored.
///
/// # Errors
/// Returns an error if the session cannot be read.
pub async fn stored_reply(runtime: &Runtime, view: SessionView) -> Result<JsonReply, Error> {
    let sessions = runtime.sessions();
    let (outcome, warnings) = if view.last_run.is_some_and(|run| run.end == Some(RunEnd::Pending)) {
        (Outcome::Pending(sessions.pending_calls(view.id).await?), Vec::new())
    } else {
        let text = sessions.last_text(view.id).await?.unwrap_or_default();
        let warning =
            "this reply was read from the session, because the process that ran the task has exited";
        (Outcome::Completed(Completion { text, ..Completion::default() }), vec![warning.to_owned()])
    };
    let cost = Some(view.cost).filter(|cost| !cost.is_zero());
    let report = RunReport { outcome, steps: 0, tool_calls: 0, usage: view.usage, cost };
    let (session_id, model, schema_warnings) = (view.id, view.model, Vec::new());
    let result = RunResult { session_id, model, warnings, schema_warnings, report };
    let mut reply = JsonReply::new::<Resume>(reply(runtime, result).await)?;
    if let Value::Object(fields) = &mut reply.json {
        fields.retain(|name, _| name != "turns" && name != "tool_calls");
    }
    Ok(reply)
}
