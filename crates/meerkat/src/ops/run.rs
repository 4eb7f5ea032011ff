//! `meerkat_run`.

use meerkat_contracts::{RunReply, RunRequest};

use super::turn::{hooks, reply, request_options, turn_options};
use super::{Call, Impact, OperationHandler};
use crate::session::{NewSessionOptions, ToolOverlay};
use crate::{Error, RunInput};

pub(super) struct Run;

impl OperationHandler for Run {
    const NAME: &'static str = "meerkat_run";
    const TITLE: &'static str = "Run an agent";
    const DOC: &'static str = "Start a new agent session with a prompt and wait for its answer. The reply contains a \
        session_id: pass it to meerkat_resume to continue the conversation. If you provide tools, a call to one of \
        them ends the run with pending_tool_calls; run them yourself and send the results with meerkat_resume. If \
        the reply has pending_approvals, ask the user about them and send the decisions with meerkat_resume.";
    const IMPACT: Impact = Impact::RunsAgent;
    type Input = RunRequest;
    type Output = RunReply;

    async fn handle(call: Call, input: RunRequest) -> Result<RunReply, Error> {
        check_labels(&input)?;
        let schema = request_options!(input).check()?;
        let options = NewSessionOptions { labels: input.labels.unwrap_or_default() };
        let first = RunInput { prompt: input.prompt, ..RunInput::default() };
        let runtime = call.runtime;
        let hooks = hooks(&runtime, input.hooks_override).await?;
        let turn = turn_options!(input, first, schema, ToolOverlay::default(), hooks);
        let result = runtime.sessions().create(options, turn, call.control).await?;
        Ok(reply(&runtime, result).await)
    }
}

fn check_labels(input: &RunRequest) -> Result<(), Error> {
    const RESERVED: [&str; 3] = ["mob_id", "role", "meerkat_id"];
    let reserved = |key: &&String| RESERVED.contains(&key.as_str()) || key.starts_with("meerkat.");
    match input.labels.iter().flat_map(|labels| labels.keys()).find(reserved) {
        Some(key) => Err(Error::Arguments(format!("the label `{key}` is reserved; choose another name"))),
        None => check_length(input.labels.iter().flatten()),
    }
}

/// Limits the size of labels, because they are returned for every session in a list.
fn check_length<'a>(labels: impl Iterator<Item = (&'a String, &'a String)>) -> Result<(), Error> {
    const MAX_BYTES: usize = 8 * 1024;
    let length: usize = labels.map(|(key, value)| key.len() + value.len()).sum();
    if length <= MAX_BYTES {
        return Ok(());
    }
    Err(Error::Arguments(format!("`labels` have {length} bytes together, which is more than {MAX_BYTES}")))
}
