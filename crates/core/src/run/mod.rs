//! The run machine: decides what happens next in one run, and performs none of it.
//!
//! A driver calls [`Run::next`] for the next effect, performs it, and passes the result to [`Run::feed`]. The machine
//! owns the transcript and every decision: steps, tool calls, retries, budgets, compaction, extraction, and the end
//! of the run. Whatever the order of inputs:
//!
//! - every tool call gets exactly one result, and results are in call order;
//! - commits are never undone, and a committed success is never turned into a cancellation;
//! - after any failure, interrupt, or crash, the session can be opened for another run;
//! - the run ends.
//!
//! The state of a run is divided: `ledger` has its messages and totals, `meter` its budget, `window` its context, and
//! `model_calls` its retries. `machine` has the table of states and inputs; `step` and `finish` act on it.

mod effect;
mod events;
mod extract;
mod finish;
mod ledger;
mod machine;
mod meter;
mod model_calls;
mod opening;
mod outcome;
mod pause;
mod prompt;
mod settings;
mod states;
mod step;
mod step_calls;
mod window;

#[cfg(test)]
mod tests;

pub use crate::transcript::CompactedMessages;
pub use effect::{
    BudgetUsage, CallChange, CallIntent, Commit, Effect, Input, LastRun, ModelTask, Progress, Stop, ToolTable,
};
pub use machine::Run;
pub use opening::{InputError, Opening, RunInput, StoredCall, open};
pub use outcome::{Completion, ExtractionError, Failure, Outcome, Pending, RunEnd, RunReport};
pub use settings::RunSettings;
