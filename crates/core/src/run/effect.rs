//! What the machine wants done, and what it can be told.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Report, RunEnd};
use crate::{
    AgentEvent, Answer, Compaction, Denial, HookInvocation, Message, ModelError, RunId, Settled, Timestamp,
    ToolCall, ToolOutput, ToolRoute, Usage, Usd,
};

/// What to do next.
#[derive(Debug)]
pub enum Effect {
    /// Tell whoever listens.
    Emit(AgentEvent),
    /// Make this durable, then feed [`Input::Committed`].
    Commit(Box<Commit>),
    /// A step is about to begin: settle which tools there are, then feed [`Input::Tools`]. Those named here are about
    /// to be started, so they are worth waiting for.
    Boundary(Vec<String>),
    /// Start asking the model. It is answered by [`Input::Answered`], [`Input::Extracted`] or
    /// [`Input::Failed`].
    Ask(Ask),
    /// Start these calls. Each is answered by [`Input::ToolDone`].
    Start(Vec<ToolCall>),
    /// Call the hooks of this point. It is answered by [`Input::Consulted`].
    Consult(Box<HookInvocation>),
    /// Find out which of these calls may be run or handed out. It is answered by [`Input::Vetted`].
    Vet(Vec<ToolCall>),
    /// Start a pause. It is answered by [`Input::Rested`].
    Rest(Duration),
    /// Stop whatever was started; no answer is expected any more.
    Abandon,
    /// Nothing until something started is answered, or until [`Input::Stop`].
    Wait,
    /// The run is over.
    End(Box<Report>),
}

/// What to ask the model.
#[derive(Debug, Clone)]
pub enum Ask {
    /// The next step: the transcript's context, with tools.
    Step,
    /// The structured output: the context and then these, without tools. Feed [`Input::Extracted`].
    Extract(Vec<Arc<Message>>),
    /// A summary: exactly these messages, without tools.
    Summarise {
        /// What to summarize, the request for it included.
        messages: Vec<Arc<Message>>,
        /// How long it may be.
        max_tokens: u32,
    },
}

/// What happened.
#[derive(Debug)]
pub enum Input {
    /// The commit is durable, or could not be made.
    Committed(Result<(), String>),
    /// The tools of the next step.
    Tools(Arc<ToolTable>),
    /// The model answered.
    Answered(Answer),
    /// The model answered with what should be the structured output.
    Extracted {
        /// Its text.
        text: String,
        /// What it cost.
        usage: Usage,
        /// The value, or what is wrong with it.
        verdict: Result<Value, String>,
    },
    /// The model could not be asked.
    Failed(ModelError),
    /// What the hooks of a point said.
    Consulted(Result<(), Denial>),
    /// The calls that may not be run, with what the model is told instead.
    Vetted(Vec<(String, ToolOutput)>),
    /// The pause is over.
    Rested,
    /// A tool ended.
    ToolDone {
        /// The call's id.
        id: String,
        /// What came of it.
        output: ToolOutput,
        /// How long it took.
        duration_ms: u64,
    },
    /// The run must end.
    Stop {
        /// Why.
        stop: Stop,
        /// Text streamed by the step's model call so far.
        partial: String,
    },
}

impl Input {
    /// Ends a run that is not waiting for a step's answer.
    #[must_use]
    pub const fn stop(stop: Stop) -> Self {
        Self::Stop { stop, partial: String::new() }
    }
}

/// Why a run must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Somebody asked for it.
    Interrupt,
    /// Its time is up.
    Deadline,
}

/// The tools of a step: their names, and who runs them.
pub type ToolTable = BTreeMap<String, ToolRoute>;

/// What becomes durable at once.
#[derive(Debug, Clone, Default)]
pub struct Commit {
    /// Messages to add at the end.
    pub messages: Vec<Arc<Message>>,
    /// What happens to the open calls.
    pub calls: CallChange,
    /// The session's sums afterwards.
    pub progress: Progress,
    /// Whether the run is over with this.
    pub ends: bool,
    /// The messages that the model no longer reads itself from now on.
    pub left_out: LeftOut,
}

/// Messages in a row.
#[derive(Debug, Clone, Default)]
pub struct LeftOut {
    /// The sequence number of the first.
    pub first: u64,
    /// The messages.
    pub messages: Vec<Arc<Message>>,
}

/// What happens to the open calls of a session.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum CallChange {
    /// Nothing.
    #[default]
    None,
    /// These begin.
    Open(Vec<Intent>),
    /// These are in; they are kept until all are.
    Settle(Vec<Settled>),
    /// Some begin to wait for an approval, or begin after one, and others are in.
    Update {
        /// Those that begin to wait, or begin.
        calls: Vec<Intent>,
        /// Those that are in.
        results: Vec<Settled>,
    },
    /// All results are in the messages.
    Close,
}

/// A call that is about to be made, as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Intent {
    /// The call's id.
    pub id: String,
    /// Who runs it.
    pub route: ToolRoute,
    /// When it counts as denied, if somebody is asked for an approval. Before that it is not known whether it needs one:
    /// hooks may refuse it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// The sums of a session, stored with every commit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Tokens used in all runs.
    pub usage: Usage,
    /// What they cost, as far as that is known.
    #[serde(default, skip_serializing_if = "Usd::is_zero")]
    pub cost: Usd,
    /// Steps made in all runs.
    pub steps: u64,
    /// What the last step read.
    pub last_input_tokens: u64,
    /// The last compaction, if there was one.
    pub compaction: Option<Compaction>,
    /// The latest run. One that has no end although nobody runs the session was cut off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run: Option<LastRun>,
}

/// The latest run of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastRun {
    /// The run.
    pub id: RunId,
    /// How it ended, if it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<RunEnd>,
    /// What it has used up, if it goes on once calls are approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<Spent>,
}

/// What a run has used up of what it may.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// Steps.
    pub steps: u32,
    /// Tool calls.
    pub tool_calls: u32,
    /// Tokens.
    pub tokens: u64,
    /// Money, as far as prices are known.
    #[serde(default, skip_serializing_if = "Usd::is_zero")]
    pub cost: Usd,
    /// Time at work, in milliseconds.
    #[serde(default)]
    pub elapsed_ms: u64,
    /// Whether it asked for more tool calls than it may make.
    #[serde(default)]
    pub refused: bool,
}
