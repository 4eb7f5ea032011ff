//! Settings of a run.

use std::sync::Arc;
use std::time::Duration;

use crate::{
    BudgetLimits, CompactionPolicy, FindPinned, HookPoints, Price, Provider, RetryPolicy, RunId,
    SchemaWarning, SessionId,
};

/// Settings and limits of a run.
#[derive(Debug, Clone)]
pub struct RunSettings {
    /// Id of the session.
    pub session_id: SessionId,
    /// Id of the run.
    pub run_id: RunId,
    /// Provider of the model.
    pub provider: Provider,
    /// Maximum number of model calls, including those for summaries and structured output.
    pub max_steps: u32,
    /// Budget of the run.
    pub budget: BudgetLimits,
    /// Price of the model, if known.
    pub price: Option<Price>,
    /// Share of a budget at which to warn.
    pub warn_at: f32,
    /// Retry policy for model calls.
    pub retry: RetryPolicy,
    /// Retries when structured output fails validation; `None` if none is requested.
    pub extraction_retries: Option<u32>,
    /// Keywords of the output schema that the provider does not support.
    pub schema_warnings: Vec<SchemaWarning>,
    /// Custom prompt for the structured output, instead of the default.
    pub extraction_prompt: Option<Arc<str>>,
    /// Compaction policy; `None` to never compact.
    pub compaction: Option<CompactionPolicy>,
    /// Finds the texts that a compaction must keep verbatim.
    pub find_pinned: FindPinned,
    /// Points that have hooks; the others are skipped.
    pub hooks: HookPoints,
    /// Time after which a call that awaits approval counts as denied.
    pub approval_timeout: Duration,
}
