//! The tools of a run's steps: collected before each step, because sources change.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use meerkat_core::run::{Stop, ToolTable};
use meerkat_core::{
    AgentEvent, ApprovalPolicy, Clock, Message, NoticeKind, Tool, ToolDef, ToolRoute, ToolSource,
};

use super::active::saturating_add;
use super::stop_signals::StopSignals;
use crate::config::Config;
use crate::events::Emitter;
use crate::tools::ToolOverlay;

/// Time an approved call waits for its tool's server to finish connecting.
const TOOL_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between checks for that tool.
const TOOL_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Tools that do not come from a source, and which tools the run may use.
#[derive(Debug)]
pub(super) struct ToolPlan {
    /// The caller's tools; one without a route is visible but cannot be called.
    pub(super) callers: Vec<(ToolDef, Option<ToolRoute>)>,
    pub(super) overlay: ToolOverlay,
    pub(super) approvals: ApprovalPolicy,
}

/// The tools of a run.
pub(super) struct StepTools {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) config: Arc<Config>,
    pub(super) emitter: Arc<Emitter>,
    pub(super) plan: ToolPlan,
    pub(super) sources: Vec<Arc<dyn ToolSource>>,
    /// Tools of the current step.
    pub(super) available: BTreeMap<String, Arc<dyn Tool>>,
    /// Notices for the model about background jobs that finished before this step.
    pub(super) job_notices: Vec<String>,
    /// Whether the current step started with approved calls, before a model call.
    pub(super) resumed_approved: bool,
}

impl StepTools {
    /// Collects the tools for the next step, and waits briefly for required ones whose servers are still connecting.
    pub(super) async fn collect(&mut self, required: &[String], stops: &mut StopSignals) -> Option<Stop> {
        let clock = Arc::clone(&self.clock);
        let end = saturating_add(clock.now(), TOOL_TIMEOUT);
        // Job notices before a step without a model call are kept for the next step with one.
        if !self.resumed_approved {
            self.job_notices.clear();
        }
        self.resumed_approved = !required.is_empty();
        loop {
            self.apply_source_changes();
            self.collect_available();
            let is_missing = required.iter().any(|name| !self.available.contains_key(name));
            let is_coming = self.sources.iter().any(|source| source.notice().is_some());
            if !is_missing || !is_coming || clock.now() > end {
                return None;
            }
            tokio::select! {
                stop = stops.next() => return Some(stop),
                () = clock.sleep(TOOL_POLL_INTERVAL) => {}
            }
        }
    }

    /// Lets sources apply their deferred changes, and emits events for them.
    fn apply_source_changes(&mut self) {
        for change in self.sources.iter().flat_map(|source| source.apply_changes()) {
            self.emitter.emit(AgentEvent::ToolConfigChanged { payload: change });
        }
        let finished = self.sources.iter().flat_map(|source| source.take_finished_jobs());
        self.job_notices.extend(finished.map(|job| self.emitter.report_finished_job(job)));
    }

    /// A caller's tool takes precedence over a source's tool of the same name.
    fn collect_available(&mut self) {
        let mut tools = BTreeMap::new();
        for tool in self.sources.iter().flat_map(|source| source.tools()) {
            tools.entry(tool.def().name.clone()).or_insert(tool);
        }
        for (def, _) in &self.plan.callers {
            tools.remove(&def.name);
        }
        tools.retain(|name, _| self.plan.overlay.allows(name));
        self.available = tools;
    }

    fn callers(&self) -> impl Iterator<Item = &(ToolDef, Option<ToolRoute>)> {
        self.plan.callers.iter().filter(|(def, _)| self.plan.overlay.allows(&def.name))
    }

    /// Returns the definitions of the step's tools.
    pub(super) fn definitions(&self) -> Arc<[ToolDef]> {
        let callers = self.callers().map(|(def, _)| def.clone());
        callers.chain(self.available.values().map(|tool| tool.def().clone())).collect()
    }

    /// Returns where each tool runs.
    pub(super) fn table(&self) -> ToolTable {
        let callers = self.callers().filter_map(|(def, route)| Some((def.name.clone(), (*route)?)));
        let route = |(name, tool): (&String, &Arc<dyn Tool>)| {
            let approvals = &self.config.approvals;
            let asks = approvals.requires_approval(self.plan.approvals, name, tool.impact());
            (name.clone(), if asks { ToolRoute::Approval } else { ToolRoute::Local })
        };
        self.available.iter().map(route).chain(callers).collect()
    }

    /// Returns the notices for the model about tools that are still pending and finished background jobs. They apply to
    /// one step only, so they are not part of the conversation.
    pub(super) fn notices(&self) -> impl Iterator<Item = Arc<Message>> {
        let created_at = self.clock.now();
        let pending = self.sources.iter().filter_map(|source| source.notice());
        let pending = pending.map(|body| (NoticeKind::McpPending, body));
        let jobs = self.job_notices.iter().map(|body| (NoticeKind::BackgroundJob, body.clone()));
        pending
            .chain(jobs)
            .map(move |(kind, body)| Arc::new(Message::SystemNotice { kind, body, created_at }))
    }
}
