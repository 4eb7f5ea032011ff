//! The run machine: what happens next in one run, decided without doing any of it.
//!
//! A driver asks [`Run::next`] what to do, does it, and tells [`Run::feed`] what came of it. The machine owns
//! the transcript and every decision: steps, tool calls, retries, budgets, compaction, extraction, and how
//! it all ends. Whatever the order of what it is told:
//!
//! - every tool call gets exactly one result, and results stand in call order;
//! - what was committed is never undone, and a committed success is never turned into a cancellation;
//! - after any failure, interrupt or crash the session can be opened for another run;
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
