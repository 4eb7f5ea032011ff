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

mod announce;
mod calls;
mod compaction;
mod consult;
mod effect;
mod extract;
mod machine;
mod meter;
mod opening;
mod outcome;
mod pause;
mod prompt;
mod trouble;
mod work;

#[cfg(test)]
mod tests;

pub use effect::{
    Ask, CallChange, Commit, Effect, Input, Intent, LastRun, LeftOut, Progress, Spent, Stop, ToolTable,
};
pub use machine::{Run, RunSettings};
pub use opening::{Opening, OpeningError, RunInput, StoredCall, open};
pub use outcome::{Completion, ExtractionError, Failure, Outcome, Pending, Report, RunEnd};
