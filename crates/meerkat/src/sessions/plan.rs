//! The plan of a run: everything that is decided before it starts, from the request, the config, and the stored session.

use std::sync::Arc;

use meerkat_capabilities::CapabilityId;
use meerkat_contracts::{MAX_OUTPUT_RETRIES, ToolHandler};
use meerkat_core::run::{Opening, Progress, RunInput, RunSettings};
use meerkat_core::{
    AgentEvent, ApprovalPolicy, Clock, CompactionPolicy, Content, Decision, HookSet, Model, ModelInfo,
    ModelRequest, OutputSchema, Price, Provider, Redactor, RunId, SchemaCompat, SchemaWarning, SessionId,
    ToolDef, ToolOutput, ToolResult, ToolRoute, ToolSource, Transcript, excerpt, excerpt_message,
};
use meerkat_providers::PriceTable;
use meerkat_store::{Change, Guard, NewSession, SessionRow, Store, Transaction};
use serde_json::Value;
use uuid::Uuid;

use super::active::{ActiveRuns, RunSlot};
use super::configured_output::ConfiguredOutput;
use super::input::CallerInput;
use super::prompt::{self, SystemPrompt};
use super::request::{RunControl, RunRequest, Target, TurnOptions};
use super::spans::RunTrace;
use super::step_tools::ToolPlan;
use crate::Error;
use crate::capabilities::Capabilities;
use crate::config::{Config, ConfigAccess, ConfigService, CurrentConfig};
use crate::events::{Emitter, EventBus, EventQueue, PriorEvents};
use crate::hooks::{HookRunner, RunHooks};
use crate::models::{Models, ResolvedModel, params, schema_warnings};
use crate::records::{self, RecordError, SessionSettings, encode};
use crate::request_error::RequestError;
use crate::schema::{InvalidSchema, OutputValidator};
use crate::tools::{CompactionIndex, Contribution, Extensions, FIND_PINNED, RunView};

/// Plans runs.
pub(crate) struct Planner {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) config: ConfigService,
    pub(crate) models: Arc<Models>,
    /// Tool sources of the embedder, shared by all runs.
    pub(crate) sources: Vec<Arc<dyn ToolSource>>,
    pub(crate) extensions: Extensions,
    pub(crate) hooks: Arc<HookRunner>,
    pub(crate) events: EventBus,
    pub(crate) active: ActiveRuns,
    pub(crate) capabilities: Capabilities,
    /// Access level of the callers.
    pub(crate) access: ConfigAccess,
    /// Name of this process.
    pub(crate) instance: Option<String>,
    pub(crate) redactor: Redactor,
    pub(crate) output: ConfiguredOutput,
}

/// A request with everything that is loaded for it before the session is read.
pub(super) struct LoadedRequest {
    /// The options; their input is the [`CallerInput`].
    pub(super) turn: TurnOptions,
    validator: Option<OutputValidator>,
    /// Queue of the run's handle.
    queue: EventQueue,
    current: CurrentConfig,
    /// The config's system prompt, if it is in a file.
    file_prompt: Option<String>,
    /// Events about the skills of the request.
    events: Vec<AgentEvent>,
}

/// The plan of a run.
#[derive(Debug)]
pub(super) struct RunPlan {
    pub(super) session: SessionId,
    /// Whether the run creates the session.
    pub(super) creates: bool,
    pub(super) settings: RunSettings,
    /// The part of a model request that is the same in every step.
    pub(super) request: ModelRequest,
    pub(super) tools: ToolPlan,
    pub(super) transcript: Transcript,
    pub(super) progress: Progress,
    pub(super) opening: Opening,
    /// Guards and changes of the first commit.
    pub(super) admission: Transaction,
    /// Events emitted right after the run's first event.
    pub(super) events: Vec<AgentEvent>,
    /// Warnings for the caller.
    pub(super) warnings: Vec<String>,
}

/// The parts of a run that act.
pub(super) struct RunParts {
    pub(super) config: Arc<Config>,
    pub(super) model: Arc<dyn Model>,
    pub(super) sources: Vec<Arc<dyn ToolSource>>,
    /// Makes compacted messages searchable, if memory is enabled.
    pub(super) index: Option<Arc<dyn CompactionIndex>>,
    pub(super) hooks: Option<Arc<RunHooks>>,
    pub(super) validator: Option<OutputValidator>,
    pub(super) emitter: Arc<Emitter>,
    pub(super) trace: RunTrace,
    /// The run's slot within the process-wide limit.
    pub(super) _slot: RunSlot,
}

/// The session of a run, with the run's changes.
struct OpenedSession {
    id: SessionId,
    creates: bool,
    settings: SessionSettings,
    served: ResolvedModel,
    progress: Progress,
    transcript: Transcript,
    opening: Opening,
    admission: Transaction,
}

impl Planner {
    /// Checks a request, and loads what its run depends on.
    pub(super) async fn load(
        &self,
        request: RunRequest,
        queue: EventQueue,
    ) -> Result<(LoadedRequest, CallerInput), Error> {
        let mut validator = request.check(&self.capabilities)?;
        let mut turn = request.turn;
        if self.access == ConfigAccess::Anonymous
            && turn.input.approvals.iter().any(|item| item.decision == Decision::Approve)
        {
            let what = "approving a tool call".to_owned();
            let instead = "approve it with `rkat run --resume SESSION --approve ID`";
            return Err(RequestError::TokenNeeded { what, instead }.into());
        }
        let current = self.config.get().await?;
        if validator.is_none() {
            validator = self.output.validator(&current.config)?;
            turn.output_schema = validator.as_ref().map(|validator| validator.schema().as_ref().clone());
        }
        let agent = &current.config.agent;
        let file_prompt = match (&agent.system_prompt, &agent.system_prompt_file) {
            (None, Some(file)) => Some(prompt::read_file(file.clone()).await?),
            _ => None,
        };
        truncate_results(&mut turn.input);
        let events = self.inject_skills(&mut turn, &current).await?;
        if !turn.overlay.allows_none() {
            for extension in &self.extensions {
                extension.require().await?;
            }
        }
        let input = CallerInput::new(std::mem::take(&mut turn.input));
        Ok((LoadedRequest { turn, validator, queue, current, file_prompt, events }, input))
    }

    /// Inserts the requested skills before the user's prompt.
    async fn inject_skills(
        &self,
        turn: &mut TurnOptions,
        current: &CurrentConfig,
    ) -> Result<Vec<AgentEvent>, Error> {
        let preload = turn.preload_skills.as_deref().unwrap_or_default();
        let is_empty = turn.input.prompt.is_blank() && turn.input.results.is_empty();
        let mut events = Vec::new();
        for extension in &self.extensions {
            let injected = extension.inject((preload, &turn.skills), current).await?;
            let Some((blocks, event)) = injected else { continue };
            if !is_empty {
                let prompt = std::mem::take(&mut turn.input.prompt).into_blocks();
                turn.input.prompt = Content::from(blocks.into_iter().chain(prompt).collect::<Vec<_>>());
                events.push(event);
            }
        }
        Ok(events)
    }

    /// Plans a run of a new session, or of the session in `row`.
    pub(super) async fn plan(
        &self,
        (loaded, input): (&LoadedRequest, &mut CallerInput),
        (target, row): (&Target, Option<SessionRow>),
        control: &RunControl,
    ) -> Result<(RunPlan, RunParts), Error> {
        let LoadedRequest { turn, current, .. } = loaded;
        let config = &current.config;
        let session = match row {
            Some(row) => self.open_existing(row, (turn, input), config).await?,
            None => self.open_new(target, (turn, input), current).await?,
        };
        let schema_warnings = strict_schema_warnings(turn.output_schema.as_ref(), session.settings.provider)?;
        let limit = config.limits.max_sessions();
        let slot = self.active.admit(limit)?;
        let hooks = self.hooks.for_run(&config.hooks, &turn.hooks, self.access).await?;
        let added = self.contributions(&session, turn, config).await;
        let run_id = control.run_id.unwrap_or_else(|| RunId::from_uuid(Uuid::now_v7()));
        let parts = self.parts(&session, loaded, (hooks, slot), control, (run_id, &added))?;
        let mut settings = self.run_settings(&session, turn, config, run_id);
        settings.schema_warnings = schema_warnings;
        settings.hooks = parts.hooks.as_ref().map(|hooks| hooks.points()).unwrap_or_default();
        let mut warnings = self.warnings(&session, turn, config);
        warnings.extend(added.warnings);
        let plan = RunPlan {
            session: session.id,
            creates: session.creates,
            request: self.model_request(&session, loaded, &added.sections),
            tools: ToolPlan {
                callers: session.settings.tools.iter().map(client_tool).collect(),
                overlay: turn.overlay.clone(),
                approvals: self.approval_policy(config, session.settings.approvals),
            },
            settings,
            transcript: session.transcript,
            progress: session.progress,
            opening: session.opening,
            admission: session.admission,
            events: loaded.events.iter().cloned().chain(added.events).collect(),
            warnings,
        };
        Ok((plan, parts))
    }

    /// Opens a new session.
    async fn open_new(
        &self,
        target: &Target,
        (turn, input): (&TurnOptions, &mut CallerInput),
        current: &CurrentConfig,
    ) -> Result<OpenedSession, Error> {
        let id = SessionId::from_uuid(Uuid::now_v7());
        let now = self.clock.now();
        let served = self.models.resolve(turn.model.as_deref(), turn.provider, &current.config)?;
        let mut settings =
            SessionSettings::new(served.model.info(), self.instance.clone(), current.generation);
        change_settings(&mut settings, turn, served.model.info());
        self.check_tools(&settings, &current.config)?;
        let transcript = Transcript::default();
        let (opening, mut changes) = input.open(&*self.store, (&transcript, &[]), now).await?;
        let progress = Progress::default();
        let labels = match target {
            Target::New(options) => options.labels.clone(),
            Target::Existing(_) => Default::default(),
        };
        changes.push(Change::CreateSession(NewSession {
            id,
            created_at: now,
            labels,
            settings: encode(&settings)?,
            progress: encode(&progress)?,
        }));
        let admission = Transaction { guards: Vec::new(), changes };
        Ok(OpenedSession { id, creates: true, settings, served, progress, transcript, opening, admission })
    }

    /// Opens a stored session.
    async fn open_existing(
        &self,
        row: SessionRow,
        (turn, input): (&TurnOptions, &mut CallerInput),
        config: &Config,
    ) -> Result<OpenedSession, Error> {
        let (id, now) = (row.id, self.clock.now());
        let mut settings = records::settings(&row)?;
        let (model, provider) = match (&turn.model, turn.provider) {
            // Naming the session's current provider does not select another model.
            (None, provider) if provider.is_none_or(|provider| provider == settings.provider) => {
                (Some(settings.model.as_str()), Some(settings.provider))
            }
            (model, provider) => (model.as_deref(), provider),
        };
        let served = self.models.resolve(model, provider, config)?;
        let stored_approvals = settings.approvals;
        change_settings(&mut settings, turn, served.model.info());
        self.check_tools(&settings, config)?;
        if self.access != ConfigAccess::Owner {
            settings.approvals = settings.approvals.max(stored_approvals);
        }
        let progress = records::progress(&row)?;
        let transcript = self.transcript(&row, &progress).await?;
        let calls = self.store.calls(id).await?;
        let calls = calls.iter().map(records::call).collect::<Result<Vec<_>, _>>()?;
        let (opening, mut changes) = input.open(&*self.store, (&transcript, &calls), now).await?;
        let unrun = Guard::FenceUnchanged { session: id, fence: row.fence };
        let guards = vec![Guard::NotArchived(id), Guard::LeaseFree { session: id, now }, unrun];
        changes.push(Change::PutSettings { session: id, settings: encode(&settings)? });
        let admission = Transaction { guards, changes };
        Ok(OpenedSession { id, creates: false, settings, served, progress, transcript, opening, admission })
    }

    /// Rejects a run by an anonymous client, which may be any user of this machine, if the session has tools that the
    /// config does not enable for every session.
    fn check_tools(&self, settings: &SessionSettings, config: &Config) -> Result<(), RequestError> {
        if self.access != ConfigAccess::Anonymous {
            return Ok(());
        }
        let tools = [
            (settings.shell, config.tools.shell_enabled, "shell tools (`builtin_config.enable_shell`)"),
            (settings.builtins, config.tools.builtins_enabled, "built-in tools (`enable_builtins`)"),
        ];
        match tools.into_iter().find(|(requested, enabled, _)| *requested == Some(true) && !enabled) {
            None => Ok(()),
            Some((_, _, tools)) => {
                let what = format!("a session with {tools}");
                Err(RequestError::TokenNeeded { what, instead: "run the session with `rkat`" })
            }
        }
    }

    /// Loads the messages that the model still reads in full, and the summary of the earlier ones.
    async fn transcript(&self, row: &SessionRow, progress: &Progress) -> Result<Transcript, RecordError> {
        let first = progress.compaction.map_or(0, |compaction| compaction.kept_from);
        let rows = self.store.messages(row.id, first, u64::MAX).await?;
        let messages = rows.iter().map(|row| records::message(row).map(Arc::new));
        let messages = messages.collect::<Result<Vec<_>, _>>()?;
        let summary = match progress.compaction {
            None => None,
            Some(compaction) => {
                let rows = self.store.messages(row.id, compaction.summary_at, 1).await?;
                rows.first().map(records::message).transpose()?.map(Arc::new)
            }
        };
        Ok(Transcript::new(first, messages, summary))
    }

    /// Collects what the extensions add to a run.
    async fn contributions(
        &self,
        session: &OpenedSession,
        turn: &TurnOptions,
        config: &Arc<Config>,
    ) -> Contribution {
        let view = RunView {
            session: session.id,
            settings: &session.settings,
            overlay: &turn.overlay,
            config,
            model: session.served.model.info(),
        };
        let mut added = Contribution::default();
        for extension in &self.extensions {
            added.extend(extension.contribute(&view).await);
        }
        added
    }

    /// Creates the parts of a run that act.
    fn parts(
        &self,
        session: &OpenedSession,
        LoadedRequest { turn, validator, queue, current, .. }: &LoadedRequest,
        (hooks, slot): (Option<HookSet>, RunSlot),
        control: &RunControl,
        (run_id, added): (RunId, &Contribution),
    ) -> Result<RunParts, Error> {
        let config = &current.config;
        let prior_events = if session.creates { PriorEvents::None } else { PriorEvents::Unknown };
        let channel = self.events.open_channel(session.id, prior_events);
        let emitter =
            Arc::new(Emitter::new(channel, queue.clone(), control.events.clone(), self.redactor.clone()));
        let hooks = hooks.map(|set| {
            let (runner, emitter) = (Arc::clone(&self.hooks), Arc::clone(&emitter));
            Arc::new(RunHooks { runner, set, config: Arc::clone(config), emitter })
        });
        if let Some(index) = added.index.as_ref().filter(|_| session.progress.compaction.is_some()) {
            index.enable();
        }
        let model = Arc::clone(&session.served.model);
        let used = session.progress.usage;
        let own = if turn.overlay.allows_none() { &[][..] } else { &added.sources };
        Ok(RunParts {
            config: Arc::clone(config),
            trace: RunTrace::begin(session.id, run_id, model.info(), used, control.trace.clone()),
            model,
            sources: self.sources.iter().chain(own).cloned().collect(),
            index: added.index.clone(),
            hooks,
            validator: validator.clone(),
            emitter,
            _slot: slot,
        })
    }

    fn run_settings(
        &self,
        session: &OpenedSession,
        turn: &TurnOptions,
        config: &Config,
        run_id: RunId,
    ) -> RunSettings {
        let model = session.served.model.info();
        let retries = session.settings.structured_output_retries;
        // An older version may have stored more.
        let retries = retries.unwrap_or(config.agent.structured_output_retries).min(MAX_OUTPUT_RETRIES);
        RunSettings {
            session_id: session.id,
            run_id,
            provider: model.provider,
            max_steps: config.agent.max_turns.unwrap_or(100),
            budget: config.limits.cap(turn.budget.or(config.budget.limits())),
            price: price(config, &model.id),
            warn_at: config.agent.budget_warning_threshold as f32,
            retry: config.retry.policy(),
            extraction_retries: turn.output_schema.is_some().then_some(retries),
            schema_warnings: Vec::new(),
            extraction_prompt: config.agent.extraction_prompt.as_deref().map(Arc::from),
            compaction: self.compaction(config, model),
            find_pinned: FIND_PINNED,
            hooks: Default::default(),
            approval_timeout: config.approvals.timeout.0,
        }
    }

    fn compaction(&self, config: &Config, model: &ModelInfo) -> Option<CompactionPolicy> {
        let window = model.context_window;
        let configured = config.compaction.auto_compact_threshold;
        self.capabilities.has(CapabilityId::SessionCompaction).then(|| CompactionPolicy {
            threshold: window.map_or(configured, |window| configured.min(window / 5 * 4)).max(1),
            window,
            keep_groups: config.compaction.recent_turn_budget,
            max_summary_tokens: config.compaction.max_summary_tokens,
            min_steps_between: config.compaction.min_turns_between_compactions,
        })
    }

    /// Builds the part of a model request that is the same in every step.
    fn model_request(
        &self,
        session: &OpenedSession,
        loaded: &LoadedRequest,
        skills: &[String],
    ) -> ModelRequest {
        let (settings, config) = (&session.settings, &*loaded.current.config);
        let own = settings.system_prompt.as_deref().or(loaded.file_prompt.as_deref());
        let prompt = SystemPrompt { session_prompt: own, skills, instructions: &settings.instructions };
        let model = session.served.model.info();
        let mut params = params::effective(model, config, settings.provider_params.as_ref());
        if loaded.turn.overlay.allows_none() {
            params = params::without_tools(params);
        }
        let max_tokens = settings.max_tokens.unwrap_or(config.agent.max_tokens_per_turn);
        ModelRequest {
            system: prompt.render(&config.agent),
            messages: Vec::new(),
            tools: Arc::default(),
            max_tokens: max_tokens.min(config.max_tokens.unwrap_or(u32::MAX)),
            temperature: config.agent.temperature,
            output_schema: None,
            provider_params: (!params.is_empty()).then(|| Arc::new(Value::Object(params))),
        }
    }

    /// Returns the approval policy: the session's, or else the config's. A caller that does not own the realm can only
    /// make it stricter.
    fn approval_policy(&self, config: &Config, session_policy: Option<ApprovalPolicy>) -> ApprovalPolicy {
        let policy = config.approvals.policy;
        match (session_policy, self.access) {
            (requested, ConfigAccess::Owner) => requested.unwrap_or(policy),
            (requested, _) => requested.map_or(policy, |requested| requested.max(policy)),
        }
    }

    /// Returns warnings for the caller that are known before the run starts.
    fn warnings(&self, session: &OpenedSession, turn: &TurnOptions, config: &Config) -> Vec<String> {
        let model = &session.settings.model;
        let mut warnings: Vec<_> = session.served.warning.iter().cloned().collect();
        let params = session.settings.provider_params.as_ref();
        warnings.extend(params::unsupported_params(session.served.model.info(), params));
        if turn.budget.max_cost_usd.is_some() && price(config, model).is_none() {
            warnings.push(format!(
                "`max_cost_usd` has no effect: the price of `{model}` is unknown; set one in `prices` of the config"
            ));
        }
        warnings
    }
}

/// Returns the price of a model: from the config, or else from the built-in table.
fn price(config: &Config, model: &str) -> Option<Price> {
    config.prices.get(model).copied().or_else(|| PriceTable::built_in().price(model))
}

/// Truncates results of the caller's tools that are too long to store.
fn truncate_results(input: &mut RunInput) {
    for result in &mut input.results {
        let content = std::mem::take(&mut result.content);
        let output = ToolOutput { content, is_error: result.is_error, images: Vec::new() };
        *result = ToolResult { ..output.truncated().into_result(std::mem::take(&mut result.tool_use_id)) };
    }
}

/// Applies the settings that a run changes.
fn change_settings(settings: &mut SessionSettings, turn: &TurnOptions, model: &ModelInfo) {
    let before = settings.provider;
    settings.model.clone_from(&model.id);
    settings.provider = model.provider;
    turn.keep_in(settings);
    if let Some(params) = &turn.provider_params {
        let stored = settings.provider_params.get_or_insert_default();
        if before != settings.provider {
            params::retain_search_switch(stored);
        }
        params::merge_stored(stored, params.clone());
    }
    if let Some(tools) = turn.tools.as_ref().filter(|tools| !tools.is_empty()) {
        settings.tools.clone_from(tools);
    }
}

/// Returns warnings for parts of an output schema that the provider does not support; rejects a strict schema that
/// has any.
fn strict_schema_warnings(
    schema: Option<&OutputSchema>,
    provider: Provider,
) -> Result<Vec<SchemaWarning>, InvalidSchema> {
    let Some(schema) = schema else { return Ok(Vec::new()) };
    let warnings = schema_warnings(provider, &schema.schema);
    match warnings.first() {
        Some(first) if schema.compat == SchemaCompat::Strict => {
            let (path, reason) = (excerpt(&first.path), excerpt_message(&first.message));
            Err(InvalidSchema(format!("is not supported by {provider}: `{path}`: {reason}")))
        }
        _ => Ok(warnings),
    }
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

#[cfg(test)]
mod tests {
    use meerkat_core::Content;
    use meerkat_core::run::RunInput;

    use super::super::{NewSessionOptions, RunControl, RunRequest, Target, TurnOptions};
    use crate::{Events, Runtime, RuntimeOptions};

    #[tokio::test]
    async fn plan_is_readable() {
        let runtime = Runtime::ephemeral(RuntimeOptions::default()).unwrap();
        let sessions = runtime.sessions();
        let input = RunInput { prompt: Content::text("say hi"), ..RunInput::default() };
        let turn = TurnOptions {
            input,
            model: Some("offline".to_owned()),
            system_prompt: Some("Be brief.".to_owned()),
            max_tokens: Some(100),
            ..TurnOptions::default()
        };
        let (target, control) = (Target::New(NewSessionOptions::default()), RunControl::default());
        let request = RunRequest { target: target.clone(), turn, control: control.clone() };
        let (loaded, mut input) = sessions.planner().load(request, Events::queue().0).await.unwrap();
        let loaded = (&loaded, &mut input);
        let (plan, _) = sessions.planner().plan(loaded, (&target, None), &control).await.unwrap();
        let text = meerkat_testkit::redact(&format!("{:#?}", (&plan.request, &plan.tools, &plan.opening)));
        insta::assert_snapshot!(text, @r#"
        (
            ModelRequest {
                system: "Be brief.",
                messages: [],
                tools: [],
                max_tokens: 100,
                temperature: None,
                output_schema: None,
                provider_params: None,
            },
            ToolPlan {
                callers: [],
                overlay: ToolOverlay {
                    allowed: None,
                    blocked: [],
                },
                approvals: Never,
            },
            Opening {
                messages: [
                    User {
                        content: Content(
                            [
                                Text {
                                    text: "say hi",
                                },
                            ],
                        ),
                        created_at: [time],
                    },
                ],
                calls: None,
                prompt: User {
                    content: Content(
                        [
                            Text {
                                text: "say hi",
                            },
                        ],
                    ),
                    created_at: [time],
                },
                answered: 0,
                work: None,
                continues_run: false,
            },
        )
        "#);
    }
}
