//! Effects that the machine requests, and inputs that it accepts.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{RunEnd, RunReport};
use crate::transcript::CompactedMessages;
use crate::{
    AgentEvent, Compaction, CompletedCall, Denial, HookInvocation, Message, ModelError, ModelResponse, RunId,
    Timestamp, ToolCall, ToolOutput, ToolRoute, Usage, Usd,
};

/// The next thing to do.
#[derive(Debug)]
pub enum Effect {
    /// Emit this event.
    Emit(AgentEvent),
    /// Make this durable, then feed [`Input::Committed`].
    Commit(Box<Commit>),
    /// A step is about to start: refresh the tools, then feed [`Input::Tools`]. Calls of the tools named here are
    /// about to start, so wait for these tools.
    Boundary(Vec<String>),
    /// Call the model. The result is [`Input::ModelResponded`], [`Input::Extracted`], or [`Input::Failed`].
    CallModel(ModelTask),
    /// Start these calls. The result of each is [`Input::ToolDone`].
    Start(Vec<ToolCall>),
    /// Call the hooks of this point. The result is [`Input::HooksFinished`].
    RunHooks(Box<HookInvocation>),
    /// Check which of these calls may be run. The result is [`Input::CallsChecked`].
    CheckCalls(Vec<ToolCall>),
    /// Start a delay. The result is [`Input::SleepElapsed`].
    Sleep(Duration),
    /// Feed [`Input::Stop`] with this reason.
    Stop(Stop),
    /// Cancel everything that was started; no results are expected anymore.
    CancelAll,
    /// Wait for the result of something started, or for [`Input::Stop`].
    Wait,
    /// The run is over.
    End(Box<RunReport>),
}

/// Effects that are not performed yet, and the time of the latest input.
#[derive(Debug)]
pub(super) struct Effects {
    queue: VecDeque<Effect>,
    now: Timestamp,
}

impl Effects {
    pub(super) fn new(now: Timestamp) -> Self {
        Self { queue: VecDeque::new(), now }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.now
    }

    pub(super) fn advance(&mut self, now: Timestamp) {
        self.now = now;
    }

    pub(super) fn next(&mut self) -> Effect {
        self.queue.pop_front().unwrap_or(Effect::Wait)
    }

    pub(super) fn push(&mut self, effect: Effect) {
        self.queue.push_back(effect);
    }

    pub(super) fn emit(&mut self, event: AgentEvent) {
        self.push(Effect::Emit(event));
    }

    pub(super) fn emit_all(&mut self, events: impl IntoIterator<Item = AgentEvent>) {
        self.queue.extend(events.into_iter().map(Effect::Emit));
    }

    /// Drops the effects that are not performed yet, and cancels the others.
    pub(super) fn cancel_all(&mut self) {
        self.queue.clear();
        self.push(Effect::CancelAll);
    }
}

/// Request to the model.
#[derive(Debug, Clone)]
pub enum ModelTask {
    /// The next step: the transcript's context, with tools.
    Step,
    /// The structured output: the context and then these, without tools. Feed [`Input::Extracted`].
    Extract(Vec<Arc<Message>>),
    /// A summary: exactly these messages, without tools.
    Summarize {
        /// Messages to summarize, including the request for the summary.
        messages: Vec<Arc<Message>>,
        /// Maximum length of the summary, in tokens.
        max_tokens: u32,
    },
}

/// A result or event for the machine.
#[derive(Debug)]
pub enum Input {
    /// The commit is durable, or it failed.
    Committed(Result<(), String>),
    /// Tools of the next step.
    Tools(Arc<ToolTable>),
    /// The model responded.
    ModelResponded(ModelResponse),
    /// The model responded to the request for structured output.
    Extracted {
        /// Text of the response.
        text: String,
        /// Tokens used.
        usage: Usage,
        /// The value, or the reason it is invalid.
        verdict: Result<Value, String>,
    },
    /// The model call failed.
    Failed(ModelError),
    /// Verdict of the hooks of a point.
    HooksFinished(Result<(), Denial>),
    /// Calls that must not be run, with the results for the model.
    CallsChecked(Vec<(String, ToolOutput)>),
    /// The delay is over.
    SleepElapsed,
    /// A tool call completed.
    ToolDone {
        /// Id of the call.
        id: String,
        /// Output of the tool.
        output: ToolOutput,
        /// Duration of the call in milliseconds.
        duration_ms: u64,
    },
    /// The run must end.
    Stop {
        /// Reason to stop.
        stop: Stop,
        /// Text streamed so far by the step's model call.
        partial: String,
    },
}

impl Input {
    /// Creates a stop for a run without a response in progress.
    #[must_use]
    pub const fn stop(stop: Stop) -> Self {
        Self::Stop { stop, partial: String::new() }
    }
}

/// Reason a run must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The user or caller interrupted it.
    Interrupt,
    /// The time limit was reached.
    Deadline,
}

/// The tools of a step, by name, and who runs them.
pub type ToolTable = BTreeMap<String, ToolRoute>;

/// Changes that become durable atomically.
#[derive(Debug, Clone, Default)]
pub struct Commit {
    /// Messages to append.
    pub messages: Vec<Arc<Message>>,
    /// Change to the open calls.
    pub calls: CallChange,
    /// Totals of the session after the commit.
    pub progress: Progress,
    /// Tokens used since the previous commit.
    pub usage: Usage,
    /// Their cost, where known.
    pub cost: Usd,
    /// Whether this commit ends the run.
    pub ends: bool,
    /// Messages that the model no longer reads after this commit.
    pub compacted: CompactedMessages,
}

/// Change to the open calls of a session.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum CallChange {
    /// No change.
    #[default]
    None,
    /// These calls start.
    Open(Vec<CallIntent>),
    /// These calls completed; their results are stored until all have completed.
    Complete(Vec<CompletedCall>),
    /// Some calls start, or start to await approval, and others completed.
    Update {
        /// Calls that start, or start to await approval.
        calls: Vec<CallIntent>,
        /// Calls that completed.
        results: Vec<CompletedCall>,
    },
    /// All results are in the messages.
    Close,
}

/// A call that is about to start, as stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallIntent {
    /// Id of the call.
    pub id: String,
    /// Runner of the call.
    pub route: ToolRoute,
    /// Time after which the call counts as denied, once approval was requested. It is unset before that, because hooks
    /// may still deny the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// Totals of a session, stored with every commit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Tokens used in all runs.
    pub usage: Usage,
    /// Cost of all runs, where known.
    #[serde(default, skip_serializing_if = "Usd::is_zero")]
    pub cost: Usd,
    /// Number of steps in all runs.
    pub steps: u64,
    /// Input tokens of the last step.
    pub last_input_tokens: u64,
    /// The last compaction, if any.
    pub compaction: Option<Compaction>,
    /// The latest run. If it has no end but the session is not running, it was cut off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run: Option<LastRun>,
}

/// The latest run of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastRun {
    /// Id of the run.
    pub id: RunId,
    /// End of the run, if it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<RunEnd>,
    /// Budget used so far, if the run continues once calls are approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<BudgetUsage>,
}

/// Budget used by a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetUsage {
    /// Number of steps.
    pub steps: u32,
    /// Number of tool calls.
    pub tool_calls: u32,
    /// Number of tokens.
    pub tokens: u64,
    /// Cost, where prices are known.
    #[serde(default, skip_serializing_if = "Usd::is_zero")]
    pub cost: Usd,
    /// Running time, in milliseconds.
    #[serde(default)]
    pub elapsed_ms: u64,
    /// Whether the run requested more tool calls than it may make.
    #[serde(default)]
    pub refused: bool,
}
