//! The states of a run, and what follows them.

use serde_json::Value;

use super::effect::Stop;
use super::extract::Extraction;
use super::opening::Opening;
use super::outcome::Outcome;
use super::step_calls::{RequestedCall, StepCalls};
use crate::{HookPoint, HookPoints, ModelResponse};

/// Stage of a run.
#[derive(Debug, PartialEq)]
pub(super) enum Phase {
    /// The opening is not durable yet; until then, the run does not exist.
    Opening,
    /// The opening is durable.
    Running,
    /// The hooks of a successful run were called; they are called once.
    Concluded,
}

/// Input that a run is waiting for.
#[derive(Debug)]
pub(super) enum State {
    /// A commit is in progress; this follows it, unless the run must stop.
    Committing { next: Next, stop: Option<Stop> },
    /// Hooks are running; this follows them.
    RunningHooks(Next),
    /// The calls of a step are being checked before they run.
    CheckingCalls(StepCalls),
    /// The driver is refreshing the tools.
    Boundary,
    /// The driver is refreshing the tools before approved calls of an earlier run are started.
    ResumingApproved(StepCalls),
    /// The model is being called for a step, for the nth time.
    Asking(u32),
    /// The model is being called for a summary of the messages before this one.
    Summarizing(u64),
    /// The model is being called for the structured output.
    Extracting(Extraction),
    /// The model will be called again after a delay.
    BackingOff(Next),
    /// Tools are running.
    Working(StepCalls),
    /// The run is over.
    Ended,
}

/// The next transition, once a commit is durable, hooks have agreed, or a delay is over.
#[derive(Debug)]
pub(super) enum Next {
    /// The run starts.
    Open(Opening),
    /// A step is over; this follows.
    EndStep(Box<Self>),
    /// A step starts.
    Boundary,
    /// The model is called for a step, for the nth time, within the budget.
    Ask(u32),
    /// The model is called for a step, for the first time.
    Request,
    /// The model's response, with these calls, is accepted.
    Take(ModelResponse, Vec<RequestedCall>),
    /// The calls of a step are checked, and then started.
    Dispatch(StepCalls),
    /// The calls that are still running are awaited.
    Resume(StepCalls),
    /// Approved calls of an earlier run are started.
    ResumeApproved(StepCalls),
    /// The answer, which is this text, is complete, and its structured output is still to be extracted.
    Extract(Extraction, String),
    /// The model is called for the structured output, within the budget.
    AskOutput(Extraction),
    /// The model is called for the structured output.
    RequestOutput(Extraction),
    /// The model's structured output is validated.
    TakeOutput(Extraction, Result<Value, String>),
    /// The end is committed.
    Conclude(Outcome),
    /// The run is over.
    Finish(Outcome),
}

impl Next {
    /// Inserts the hooks of the last step between its commit and this transition.
    pub(super) fn after_last_step(self, hooks: HookPoints) -> Self {
        match self {
            next if !hooks.has(HookPoint::TurnBoundary) => next,
            Self::Finish(outcome) => Self::EndStep(Box::new(Self::Conclude(outcome))),
            next => Self::EndStep(Box::new(next)),
        }
    }
}
