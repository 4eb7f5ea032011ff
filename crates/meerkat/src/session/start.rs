//! Start of a run: turns a prepared run into a driver and a state machine, and drives it to its end.

use std::sync::Arc;

use meerkat_contracts::ToolHandler;
use meerkat_core::run::{Completion, Outcome, Run, RunSettings};
use meerkat_core::{
    AgentEvent, ApprovalPolicy, CompactionPolicy, HookSet, Model, ModelInfo, ModelRequest, Price, RunId,
    SessionId, ToolDef, ToolRoute, ToolSource,
};
use meerkat_providers::PriceTable;
use meerkat_store::{Change, Guard, Transaction};
use serde_json::Value;
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::active::RunSlot;
use super::driver::{DriveResult, Driver};
use super::events::Emitter;
use super::options::{HookOverlay, RunControl, RunResult, ToolOverlay, TurnOptions};
use super::prepare::PreparedRun;
use super::record::SessionSettings;
use super::run_skills::RunSkills;
use super::spans::RunTrace;
use crate::config::{Config, ConfigAccess};
use crate::error::SessionRef;
use crate::events::PriorEvents;
use crate::features::RunMemory;
use crate::hooks::RunHooks;
use crate::params;
use crate::prompt::SystemPrompt;
use crate::runtime::Shared;
use crate::structured::OutputValidator;
use crate::{Error, features};

/// Inputs loaded for a run before its driver is built.
struct RunParts {
    config: Config,
    run_skills: RunSkills,
    hooks: HookSet,
    slot: RunSlot,
}

impl Shared {
    /// Runs a prepared run to its end in a separate task, so that the run continues if the caller is dropped.
    pub(super) async fn execute(
        self: &Arc<Self>,
        prepared_run: PreparedRun,
        turn: TurnOptions,
        config: Config,
        control: RunControl,
        initial_events: Vec<AgentEvent>,
    ) -> Result<RunResult, Error> {
        let mut session = SessionRef {
            id: prepared_run.id,
            reference: self.reference(prepared_run.id),
            created: prepared_run.created,
            resumable: true,
        };
        let limit = config.limits.max_sessions();
        let slot = self.live.admit(limit).ok_or(Error::TooManySessions { limit })?;
        let model_id = prepared_run.settings.model.clone();
        let mut warnings = self.warnings(&prepared_run, &turn, &config);
        let schema_warnings = prepared_run.schema_warnings.clone();
        let interrupt = CancellationToken::new();
        let hooks = self.hook_set(&config, &turn.hooks).await?;
        let run_skills = self.load_run_skills(&prepared_run.settings, &turn, &config, initial_events).await;
        warnings.extend(run_skills.warnings.iter().cloned());
        let run_control = RunControl { cancel: interrupt.clone(), ..control.clone() };
        let (driver, run) =
            self.prepare(prepared_run, turn, RunParts { config, run_skills, hooks, slot }, run_control)?;
        let mut task = tokio::spawn(Arc::clone(self).supervise(driver, run));
        let result = tokio::select! {
            result = &mut task => result,
            () = control.cancel.cancelled() => {
                interrupt.cancel();
                task.await
            }
        };
        let report = match result.flatten() {
            Ok(DriveResult::Ended(report)) => report,
            Ok(DriveResult::Rejected(error)) => return Err(error),
            Ok(DriveResult::NotPersisted(Error::Store(source))) => {
                return Err(Error::NotPersisted { session, source });
            }
            Ok(DriveResult::NotPersisted(error)) => {
                let SessionRef { id, reference, .. } = session;
                return Err(Error::InSession { id, reference, source: Box::new(error) });
            }
            Err(source) => return Err(Error::RunCrashed { session, source }),
        };
        if matches!(report.outcome, Outcome::Failed(_) | Outcome::Cancelled) {
            session.resumable = self.is_resumable(session.id).await;
        }
        match report.outcome {
            Outcome::Failed(failure) => Err(Error::Failed { session, failure }),
            Outcome::Cancelled => Err(Error::Cancelled { session }),
            Outcome::Completed(_) | Outcome::Pending(_) => {
                warnings.extend(hidden_failure(&report.outcome));
                Ok(RunResult { session_id: session.id, model: model_id, warnings, schema_warnings, report })
            }
        }
    }

    /// Returns warnings for the caller that are known before the run starts.
    fn warnings(&self, prepared_run: &PreparedRun, turn: &TurnOptions, config: &Config) -> Vec<String> {
        let model = &prepared_run.settings.model;
        let mut warnings: Vec<_> = prepared_run.served.warning.iter().cloned().collect();
        let params = prepared_run.settings.provider_params.as_ref();
        warnings.extend(params::unsupported_params(prepared_run.served.model.info(), params));
        if turn.budget.max_cost_usd.is_some() && self.price(config, model).is_none() {
            warnings.push(format!(
                "`max_cost_usd` has no effect: the price of `{model}` is unknown; set one in `prices` of the config"
            ));
        }
        warnings
    }

    /// Returns the price of a model: from the config, or else from the built-in table.
    fn price(&self, config: &Config, model: &str) -> Option<Price> {
        config.prices.get(model).copied().or_else(|| PriceTable::built_in().price(model))
    }

    /// Returns the approval policy: the session's, or else the config's. A caller that does not own the realm can only
    /// make it stricter.
    fn approval_policy(&self, config: &Config, session_policy: Option<ApprovalPolicy>) -> ApprovalPolicy {
        let policy = config.approvals.policy;
        match (session_policy, self.config_access) {
            (requested, ConfigAccess::Owner) => requested.unwrap_or(policy),
            (requested, _) => requested.map_or(policy, |requested| requested.max(policy)),
        }
    }

    /// Returns `true` if a session can be resumed: it is neither archived nor being archived.
    async fn is_resumable(&self, session: SessionId) -> bool {
        let archived = match self.store.session(session).await {
            Ok(row) => row.is_none_or(|row| row.archived_at.is_some()),
            Err(_) => false,
        };
        !archived && !self.live.is_archiving(session)
    }

    /// Drives a run. If it panics, for example in a model or a listener, its lease is released at once.
    async fn supervise(self: Arc<Self>, driver: Driver, run: Run) -> Result<DriveResult, JoinError> {
        let (session, run_id) = (driver.session, driver.run_id);
        let trace = driver.trace.clone();
        let result = tokio::spawn(Box::pin(driver.drive(run))).await;
        trace.end(&result);
        if result.is_err() {
            self.let_go(session, run_id).await;
        }
        result
    }

    /// Releases the lease of a run that crashed. If that fails, the lease expires.
    async fn let_go(&self, session: SessionId, run_id: RunId) {
        let row = self.store.session(session).await.ok().flatten();
        if let Some(lease) = row.and_then(|row| row.lease).filter(|lease| lease.run == run_id) {
            let guards = vec![Guard::HoldsLease { session, fence: lease.fence }];
            let changes = vec![Change::ReleaseLease(session)];
            let _ = self.store.commit(Transaction { guards, changes }).await;
        }
    }

    /// Returns the built-in tools, if enabled by the session or else the config, and the tools of the session's MCP
    /// servers.
    fn own_sources(
        self: &Arc<Self>,
        session: SessionId,
        settings: &SessionSettings,
        config: &Config,
        model: &ModelInfo,
    ) -> Vec<Arc<dyn ToolSource>> {
        let built_in = self.builtins(session, settings, config, model);
        built_in.into_iter().chain(self.servers.source(session, model.context_window)).collect()
    }

    /// Builds the hook set of a run.
    async fn hook_set(&self, config: &Config, overlay: &HookOverlay) -> Result<HookSet, Error> {
        let entries = self.hooks.entries(&config.hooks).await?;
        HookSet::new(&entries, overlay.entries.clone(), &overlay.disable)
            .map_err(|error| Error::Hooks(error.to_string()))
    }

    /// Returns the hooks of a run, or `None` if it has none.
    fn run_hooks(
        self: &Arc<Self>,
        config: &Config,
        set: HookSet,
        emitter: &Arc<Emitter>,
    ) -> Option<Arc<RunHooks>> {
        (set != HookSet::default()).then(|| {
            let (shared, emitter) = (Arc::clone(self), Arc::clone(emitter));
            Arc::new(RunHooks { shared, set, config: config.hooks.clone(), emitter })
        })
    }

    fn prepare(
        self: &Arc<Self>,
        prepared_run: PreparedRun,
        turn: TurnOptions,
        RunParts { config, run_skills, hooks, slot }: RunParts,
        control: RunControl,
    ) -> Result<(Driver, Run), Error> {
        let PreparedRun {
            id,
            settings,
            served,
            progress,
            transcript,
            opening,
            admission,
            created,
            schema_warnings,
            ..
        } = prepared_run;
        let prior_events = if created { PriorEvents::None } else { PriorEvents::Unknown };
        let model = served.model;
        let run_id = control.run_id.unwrap_or_else(|| RunId::from_uuid(Uuid::now_v7()));
        let validator = turn.output_schema.map(OutputValidator::new).transpose()?;
        let retries = settings.structured_output_retries.unwrap_or(config.agent.structured_output_retries);
        let budget = config.limits.cap(turn.budget.or(config.budget.limits()));
        let emitter = Arc::new(Emitter::new(
            self.events.open_channel(id, prior_events),
            control.events,
            self.redactor.clone(),
        ));
        let hooks = self.run_hooks(&config, hooks, &emitter);
        let run_settings = RunSettings {
            session_id: id,
            run_id,
            provider: model.info().provider,
            max_steps: config.agent.max_turns.unwrap_or(100),
            budget,
            price: self.price(&config, &model.info().id),
            warn_at: config.agent.budget_warning_threshold as f32,
            retry: config.retry.policy(),
            extraction_retries: validator.is_some().then_some(retries),
            schema_warnings,
            extraction_prompt: config.agent.extraction_prompt.as_deref().map(Arc::from),
            compaction: compaction(&config, &*model),
            find_pinned: crate::agent_skills::FIND_PINNED,
            hooks: hooks.as_ref().map(|hooks| hooks.points()).unwrap_or_default(),
            approval_timeout: config.approvals.timeout.0,
        };
        let now = self.clock.now();
        let memory = RunMemory::from_config(&config, &settings, &self.store, &progress);
        let trace = RunTrace::begin(id, run_id, model.info(), progress.usage, control.trace);
        let run = Run::new(run_settings, transcript, progress, opening, now);
        let driver = Driver {
            shared: Arc::clone(self),
            session: id,
            run_id,
            request: settings.request(&config, model.info(), &run_skills.sections, &turn.overlay),
            own_sources: if turn.overlay.allows_none() {
                Vec::new()
            } else {
                let sources = self.own_sources(id, &settings, &config, model.info());
                sources
                    .into_iter()
                    .chain(run_skills.tools)
                    .chain(memory.as_ref().map(RunMemory::source))
                    .collect()
            },
            initial_events: run_skills.events,
            client_tools: settings.tools.iter().map(client_tool).collect(),
            approvals: self.approval_policy(&config, settings.approvals),
            config,
            model,
            validator,
            overlay: turn.overlay,
            emitter,
            memory,
            hooks,
            interrupt: control.cancel,
            admission: Some(admission),
            job_notices: Vec::new(),
            resumed_approved: false,
            trace,
            _slot: slot,
        };
        Ok((driver, run))
    }
}

impl SessionSettings {
    /// Builds the part of a model request that is the same in every step.
    fn request(
        &self,
        config: &Config,
        model: &ModelInfo,
        skills: &[String],
        overlay: &ToolOverlay,
    ) -> ModelRequest {
        let own = self.system_prompt.as_deref();
        let prompt = SystemPrompt { session_prompt: own, skills, instructions: &self.instructions };
        let mut params = params::effective(model, config, self.provider_params.as_ref());
        if overlay.allows_none() {
            params = params::without_tools(params);
        }
        ModelRequest {
            system: prompt.render(&config.agent),
            messages: Vec::new(),
            tools: Arc::default(),
            max_tokens: self
                .max_tokens
                .unwrap_or(config.agent.max_tokens_per_turn)
                .min(config.max_tokens.unwrap_or(u32::MAX)),
            temperature: config.agent.temperature,
            output_schema: None,
            provider_params: (!params.is_empty()).then(|| Arc::new(Value::Object(params))),
        }
    }
}

/// Returns a warning with the last model failure if a budget ended the run before a retry. Otherwise the caller would
/// not see the failure.
fn hidden_failure(outcome: &Outcome) -> Option<String> {
    let Outcome::Completed(Completion { last_failure: Some(failure), .. }) = outcome else { return None };
    Some(format!("the run ended before a retry; the last model call failed: {failure}"))
}

/// Returns a caller's tool and its route. A session stored by an older version may have a tool with an unknown handler;
/// the model sees it but cannot call it.
fn client_tool(tool: &ToolHandler) -> (ToolDef, Option<ToolRoute>) {
    let def = ToolDef {
        name: tool.name.clone(),
        description: tool.description.clone(),
        input_schema: Value::Object(tool.input_schema.clone()),
    };
    let callback = tool.handler.as_deref().is_none_or(|handler| handler == ToolHandler::CALLBACK);
    (def, callback.then_some(ToolRoute::Callback))
}

fn compaction(config: &Config, model: &dyn Model) -> Option<CompactionPolicy> {
    let window = model.info().context_window;
    let configured = config.compaction.auto_compact_threshold;
    features::COMPACTION.then(|| CompactionPolicy {
        threshold: window.map_or(configured, |window| configured.min(window / 5 * 4)).max(1),
        window,
        keep_groups: config.compaction.recent_turn_budget,
        max_summary_tokens: config.compaction.max_summary_tokens,
        min_steps_between: config.compaction.min_turns_between_compactions,
    })
}
