//! How a run is started: what is asked for and what the session remembers, made into a driver and a machine.

use std::collections::BTreeMap;
use std::sync::Arc;

use meerkat_contracts::ToolHandler;
use meerkat_core::run::{Opening, Outcome, Progress, Report, Run, RunInput, RunSettings, open};
use meerkat_core::{
    BudgetLimits, CompactionPolicy, Model, ModelInfo, ModelRequest, OutputSchema, Provider, RunId,
    SchemaCompat, SchemaWarning, SessionId, ToolDef, ToolRoute, ToolSource, Transcript,
};
use meerkat_store::{Change, Guard, NewSession, SessionRow, Transaction};
use serde_json::{Map, Value};
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::driver::{Driven, Driver};
use super::events::{Emitter, EventSink};
use super::media::stored_input;
use super::record::{self, SessionSettings, encode};
use crate::config::{Config, CurrentConfig};
use crate::error::SessionRef;
use crate::events::Past;
use crate::params;
use crate::prompt::SystemPrompt;
use crate::providers::Served;
use crate::runtime::Shared;
use crate::structured::OutputJudge;
use crate::{Error, features, images};

/// What a new session is like.
#[derive(Debug, Clone, Default)]
pub struct NewSessionOptions {
    /// What it can be found by.
    pub labels: BTreeMap<String, String>,
}

/// One run: what to do, and what to change in the session for it and from then on.
#[derive(Debug, Clone, Default)]
pub struct TurnOptions {
    /// What the user says and brings.
    pub input: RunInput,
    /// Another model from now on.
    pub model: Option<String>,
    /// Who serves it.
    pub provider: Option<Provider>,
    /// Another system prompt from now on.
    pub system_prompt: Option<String>,
    /// Other instructions from now on.
    pub instructions: Option<Vec<String>>,
    /// Another output limit from now on.
    pub max_tokens: Option<u32>,
    /// Other provider parameters from now on.
    pub provider_params: Option<Map<String, Value>>,
    /// Other tools of the caller from now on.
    pub tools: Option<Vec<ToolHandler>>,
    /// Built-in tools on or off from now on; the config decides where nobody ever said.
    pub builtins: Option<bool>,
    /// What the structured output of this run must fit.
    pub output_schema: Option<OutputSchema>,
    /// How often to ask again for it, from now on.
    pub structured_output_retries: Option<u32>,
    /// Which tools this run may use.
    pub overlay: ToolOverlay,
    /// What this run may use up.
    pub budget: BudgetLimits,
}

/// Which tools a run may use; a block comes before an allowance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolOverlay {
    /// Only these, if set.
    pub allowed: Option<Vec<String>>,
    /// Not these.
    pub blocked: Vec<String>,
}

impl ToolOverlay {
    pub(super) fn allows(&self, name: &str) -> bool {
        let listed = |names: &[String]| names.iter().any(|listed| listed == name);
        !listed(&self.blocked) && self.allowed.as_deref().is_none_or(listed)
    }
}

/// How a run is watched and stopped.
#[derive(Clone, Default)]
pub struct RunControl {
    /// Cancelling it interrupts the run.
    pub cancel: CancellationToken,
    /// Gets the run's events.
    pub events: Option<EventSink>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct RunResult {
    /// The session.
    pub session_id: SessionId,
    /// The model that served it.
    pub model: String,
    /// What the caller should know about how the model or the schema was taken.
    pub warnings: Vec<String>,
    /// What the provider cannot take of the output schema.
    pub schema_warnings: Vec<SchemaWarning>,
    /// What came of it: completed or pending. Failures and interrupts are errors.
    pub report: Report,
}

/// A session as a run finds it.
pub(super) struct Found {
    id: SessionId,
    settings: SessionSettings,
    served: Served,
    progress: Progress,
    transcript: Transcript,
    opening: Opening,
    admission: Transaction,
    created: bool,
    schema_warnings: Vec<SchemaWarning>,
}

impl Shared {
    /// Prepares the first run of a new session.
    pub(super) fn found_new(
        &self,
        options: NewSessionOptions,
        turn: &TurnOptions,
        current: &CurrentConfig,
    ) -> Result<Found, Error> {
        let id = SessionId::from_uuid(Uuid::now_v7());
        let now = self.clock.now();
        let served = self.models.resolve(turn.model.as_deref(), turn.provider, &current.config)?;
        let model = &served.model;
        let mut settings = SessionSettings {
            model: model.info().id.clone(),
            provider: model.info().provider,
            system_prompt: None,
            instructions: Vec::new(),
            max_tokens: None,
            provider_params: None,
            structured_output_retries: None,
            tools: Vec::new(),
            builtins: None,
            instance_id: self.instance.clone(),
            config_generation: current.generation,
        };
        settings.change(turn, &**model);
        let transcript = Transcript::default();
        let (input, mut changes) = stored_input(turn.input.clone())?;
        let opening = open(&transcript, &[], input, now)?;
        let session = NewSession {
            id,
            created_at: now,
            labels: options.labels,
            settings: encode(&settings)?,
            progress: encode(&Progress::default())?,
        };
        changes.push(Change::CreateSession(session));
        let admission = Transaction { guards: Vec::new(), changes };
        let progress = Progress::default();
        Ok(Found {
            schema_warnings: schema_warnings(turn.output_schema.as_ref(), settings.provider)?,
            created: true,
            id,
            settings,
            served,
            progress,
            transcript,
            opening,
            admission,
        })
    }

    /// Prepares the next run of a session.
    pub(super) async fn found(
        &self,
        row: SessionRow,
        turn: &TurnOptions,
        config: &Config,
    ) -> Result<Found, Error> {
        let (id, now) = (row.id, self.clock.now());
        let mut settings = record::settings(&row)?;
        let (asked, provider) = match (&turn.model, turn.provider) {
            // Naming the provider it has already is no wish for another model.
            (None, provider) if provider.is_none_or(|provider| provider == settings.provider) => {
                (Some(settings.model.as_str()), Some(settings.provider))
            }
            (model, provider) => (model.as_deref(), provider),
        };
        let served = self.models.resolve(asked, provider, config)?;
        settings.change(turn, &*served.model);
        let progress = record::progress(&row)?;
        let transcript = self.transcript(&row, &progress).await?;
        let calls = self.store.calls(id).await?;
        let calls = calls.iter().map(record::call).collect::<Result<Vec<_>, _>>()?;
        let (input, mut changes) = stored_input(turn.input.clone())?;
        let opening = open(&transcript, &calls, input, now)?;
        let unrun = Guard::Unrun { session: id, fence: row.fence };
        let guards = vec![Guard::Live(id), Guard::Free { session: id, now }, unrun];
        changes.push(Change::PutSettings { session: id, settings: encode(&settings)? });
        let admission = Transaction { guards, changes };
        Ok(Found {
            schema_warnings: schema_warnings(turn.output_schema.as_ref(), settings.provider)?,
            created: false,
            id,
            settings,
            served,
            progress,
            transcript,
            opening,
            admission,
        })
    }

    /// Reads what the model still reads itself, and the summary of the rest.
    async fn transcript(&self, row: &SessionRow, progress: &Progress) -> Result<Transcript, Error> {
        let first = progress.compaction.map_or(0, |compaction| compaction.kept_from);
        let rows = self.store.messages(row.id, first, u64::MAX).await?;
        let messages = rows.iter().map(|row| record::message(row).map(Arc::new));
        let messages = messages.collect::<Result<Vec<_>, _>>()?;
        let summary = match progress.compaction {
            None => None,
            Some(compaction) => {
                let rows = self.store.messages(row.id, compaction.summary_at, 1).await?;
                rows.first().map(record::message).transpose()?.map(Arc::new)
            }
        };
        Ok(Transcript::new(first, messages, summary))
    }

    /// Runs it to its end, in a task of its own: a caller that goes away does not take the run with it.
    pub(super) async fn execute(
        self: &Arc<Self>,
        found: Found,
        turn: TurnOptions,
        config: Config,
        control: RunControl,
    ) -> Result<RunResult, Error> {
        let session =
            SessionRef { id: found.id, reference: self.reference(found.id), created: found.created };
        let model_id = found.settings.model.clone();
        let info = found.served.model.info();
        let mut warnings: Vec<_> = found.served.warning.iter().cloned().collect();
        warnings.extend(params::left_out(info, found.settings.provider_params.as_ref()));
        let schema_warnings = found.schema_warnings.clone();
        let interrupt = CancellationToken::new();
        let (driver, run) = self.prepare(found, turn, config, control.events, interrupt.clone())?;
        let mut task = tokio::spawn(Arc::clone(self).supervise(driver, run));
        let driven = tokio::select! {
            driven = &mut task => driven,
            () = control.cancel.cancelled() => {
                interrupt.cancel();
                task.await
            }
        };
        let report = match driven.flatten() {
            Ok(Driven::Ended(report)) => report,
            Ok(Driven::Refused(error)) => return Err(error),
            Ok(Driven::Unstored(Error::Store(source))) => return Err(Error::Unstored { session, source }),
            Ok(Driven::Unstored(error)) => {
                let SessionRef { id, reference, .. } = session;
                return Err(Error::OfSession { id, reference, source: Box::new(error) });
            }
            Err(source) => return Err(Error::BrokenOff { session, source }),
        };
        match report.outcome {
            Outcome::Failed(failure) => Err(Error::Failed { session, failure }),
            Outcome::Cancelled => Err(Error::Cancelled { session }),
            Outcome::Completed(_) | Outcome::Pending(_) => {
                Ok(RunResult { session_id: session.id, model: model_id, warnings, schema_warnings, report })
            }
        }
    }

    /// Drives a run. One that breaks off, because a model or a listener panics, lets its session go at once.
    async fn supervise(self: Arc<Self>, driver: Driver, run: Run) -> Result<Driven, JoinError> {
        let (session, run_id) = (driver.session, driver.run_id);
        let driven = tokio::spawn(Box::pin(driver.drive(run))).await;
        if driven.is_err() {
            self.let_go(session, run_id).await;
        }
        driven
    }

    /// Gives back the lease of a run that no longer does so itself; if that fails, it runs out.
    async fn let_go(&self, session: SessionId, run_id: RunId) {
        let row = self.store.session(session).await.ok().flatten();
        if let Some(lease) = row.and_then(|row| row.lease).filter(|lease| lease.run == run_id) {
            let guards = vec![Guard::Holds { session, fence: lease.fence }];
            let changes = vec![Change::ReleaseLease(session)];
            let _ = self.store.commit(Transaction { guards, changes }).await;
        }
    }

    /// Returns the runtime's own tools, where the session or else the config wants them.
    fn built_in(self: &Arc<Self>, settings: &SessionSettings, config: &Config) -> Vec<Arc<dyn ToolSource>> {
        let wanted = settings.builtins.unwrap_or(config.tools.builtins_enabled);
        if wanted { images::source(self, config).into_iter().collect() } else { Vec::new() }
    }

    fn prepare(
        self: &Arc<Self>,
        found: Found,
        turn: TurnOptions,
        config: Config,
        events: Option<EventSink>,
        interrupt: CancellationToken,
    ) -> Result<(Driver, Run), Error> {
        let Found {
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
        } = found;
        let past = if created { Past::None } else { Past::Unknown };
        let model = served.model;
        let run_id = RunId::from_uuid(Uuid::now_v7());
        let judge = turn.output_schema.map(OutputJudge::new).transpose()?;
        let retries = settings.structured_output_retries.unwrap_or(config.agent.structured_output_retries);
        let budget = config.limits.cap(turn.budget.or(config.budget.limits()));
        let run_settings = RunSettings {
            session_id: id,
            run_id,
            provider: model.info().provider,
            max_steps: config.agent.max_turns.unwrap_or(100),
            budget,
            warn_at: config.agent.budget_warning_threshold as f32,
            retry: config.retry.policy(),
            extraction_retries: judge.is_some().then_some(retries),
            schema_warnings,
            extraction_prompt: config.agent.extraction_prompt.as_deref().map(Arc::from),
            compaction: compaction(&config, &*model),
        };
        let now = self.clock.now();
        let run = Run::new(run_settings, transcript, progress, opening, now);
        let driver = Driver {
            shared: Arc::clone(self),
            session: id,
            run_id,
            request: settings.request(&config, model.info()),
            built_in: self.built_in(&settings, &config),
            client_tools: settings.tools.iter().map(client_tool).collect(),
            config,
            model,
            judge,
            overlay: turn.overlay,
            budget,
            emitter: Arc::new(Emitter::new(self.events.run(id, past), events)),
            interrupt,
            admission: Some(admission),
        };
        Ok((driver, run))
    }
}

impl SessionSettings {
    /// Takes over what a run changes.
    fn change(&mut self, turn: &TurnOptions, model: &dyn Model) {
        self.model.clone_from(&model.info().id);
        self.provider = model.info().provider;
        if turn.system_prompt.is_some() {
            self.system_prompt.clone_from(&turn.system_prompt);
        }
        if let Some(instructions) = &turn.instructions {
            self.instructions.clone_from(instructions);
        }
        if turn.max_tokens.is_some() {
            self.max_tokens = turn.max_tokens;
        }
        if turn.provider_params.is_some() {
            self.provider_params.clone_from(&turn.provider_params);
        }
        if turn.structured_output_retries.is_some() {
            self.structured_output_retries = turn.structured_output_retries;
        }
        self.builtins = turn.builtins.or(self.builtins);
        if let Some(tools) = turn.tools.as_ref().filter(|tools| !tools.is_empty()) {
            self.tools.clone_from(tools);
        }
    }

    /// Makes the part of a model request that is the same in every step.
    fn request(&self, config: &Config, model: &ModelInfo) -> ModelRequest {
        let prompt = SystemPrompt { own: self.system_prompt.as_deref(), instructions: &self.instructions };
        let params = params::effective(model, config, self.provider_params.as_ref());
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

/// A caller's tool, and who runs it: one with a handler we do not know can be seen and not called.
fn client_tool(tool: &ToolHandler) -> (ToolDef, Option<ToolRoute>) {
    let def = ToolDef {
        name: tool.name.clone(),
        description: tool.description.clone(),
        input_schema: Value::Object(tool.input_schema.clone()),
    };
    let callback = tool.handler.as_deref().is_none_or(|handler| handler == "callback");
    (def, callback.then_some(ToolRoute::Callback))
}

/// Says what a provider cannot take of an output schema; a strict one is refused then.
fn schema_warnings(schema: Option<&OutputSchema>, provider: Provider) -> Result<Vec<SchemaWarning>, Error> {
    let Some(schema) = schema else { return Ok(Vec::new()) };
    let warnings = features::schema_warnings(provider, &schema.schema);
    match warnings.first() {
        Some(first) if schema.compat == SchemaCompat::Strict => Err(Error::SchemaRules(format!(
            "{provider} does not take it: `{}`: {}",
            first.path, first.message
        ))),
        _ => Ok(warnings),
    }
}

fn compaction(config: &Config, model: &dyn Model) -> Option<CompactionPolicy> {
    let window = model.info().context_window;
    let own = config.compaction.auto_compact_threshold;
    features::COMPACTION.then(|| CompactionPolicy {
        threshold: window.map_or(own, |window| own.min(window / 5 * 4)).max(1),
        window,
        keep_groups: config.compaction.recent_turn_budget,
        max_summary_tokens: config.compaction.max_summary_tokens,
        min_steps_between: config.compaction.min_turns_between_compactions,
    })
}
