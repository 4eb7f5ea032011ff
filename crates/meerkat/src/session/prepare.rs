//! Preparation of a run: combines the caller's options with the session's stored state.

use std::sync::Arc;

use meerkat_core::run::{Opening, Progress, open};
use meerkat_core::{Model, OutputSchema, Provider, SchemaCompat, SchemaWarning, SessionId, Transcript};
use meerkat_store::{Change, Guard, NewSession, SessionRow, Transaction};
use uuid::Uuid;

use super::media::externalize_input;
use super::options::{NewSessionOptions, TurnOptions};
use super::record::{self, SessionSettings, encode};
use crate::config::{Config, ConfigAccess, CurrentConfig};
use crate::providers::ResolvedModel;
use crate::runtime::Shared;
use crate::{Error, features, params};

/// A run prepared from the session and the caller's options.
pub(super) struct PreparedRun {
    pub(super) id: SessionId,
    pub(super) settings: SessionSettings,
    pub(super) served: ResolvedModel,
    pub(super) progress: Progress,
    pub(super) transcript: Transcript,
    pub(super) opening: Opening,
    pub(super) admission: Transaction,
    pub(super) created: bool,
    pub(super) schema_warnings: Vec<SchemaWarning>,
}

impl Shared {
    /// Prepares the first run of a new session.
    pub(super) async fn prepare_new(
        &self,
        options: NewSessionOptions,
        turn: &TurnOptions,
        current: &CurrentConfig,
    ) -> Result<PreparedRun, Error> {
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
            preload_skills: Vec::new(),
            tools: Vec::new(),
            builtins: None,
            files: None,
            memory: None,
            shell: None,
            shell_timeout_secs: None,
            approvals: None,
            instance_id: self.instance.clone(),
            config_generation: current.generation,
        };
        settings.change(turn, &**model);
        self.check_tools(&settings, &current.config)?;
        let transcript = Transcript::default();
        let (input, mut changes) = externalize_input(&*self.store, turn.input.clone()).await?;
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
        Ok(PreparedRun {
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
    pub(super) async fn prepare_existing(
        &self,
        row: SessionRow,
        turn: &TurnOptions,
        config: &Config,
    ) -> Result<PreparedRun, Error> {
        let (id, now) = (row.id, self.clock.now());
        let mut settings = record::settings(&row)?;
        let (model, provider) = match (&turn.model, turn.provider) {
            // Naming the session's current provider does not select another model.
            (None, provider) if provider.is_none_or(|provider| provider == settings.provider) => {
                (Some(settings.model.as_str()), Some(settings.provider))
            }
            (model, provider) => (model.as_deref(), provider),
        };
        let served = self.models.resolve(model, provider, config)?;
        let stored_approvals = settings.approvals;
        settings.change(turn, &*served.model);
        self.check_tools(&settings, config)?;
        if self.config_access != ConfigAccess::Owner {
            settings.approvals = settings.approvals.max(stored_approvals);
        }
        let progress = record::progress(&row)?;
        let transcript = self.transcript(&row, &progress).await?;
        let calls = self.store.calls(id).await?;
        let calls = calls.iter().map(record::call).collect::<Result<Vec<_>, _>>()?;
        let (input, mut changes) = externalize_input(&*self.store, turn.input.clone()).await?;
        let opening = open(&transcript, &calls, input, now)?;
        let unrun = Guard::FenceUnchanged { session: id, fence: row.fence };
        let guards = vec![Guard::NotArchived(id), Guard::LeaseFree { session: id, now }, unrun];
        changes.push(Change::PutSettings { session: id, settings: encode(&settings)? });
        let admission = Transaction { guards, changes };
        Ok(PreparedRun {
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

    /// Rejects a run by an anonymous client, which may be any user of this machine, if the session has tools that the
    /// config does not enable for every session.
    fn check_tools(&self, settings: &SessionSettings, config: &Config) -> Result<(), Error> {
        if self.config_access != ConfigAccess::Anonymous {
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
                Err(Error::TokenNeeded { what, instead: "run the session with `rkat`" })
            }
        }
    }

    /// Loads the messages that the model still reads in full, and the summary of the earlier ones.
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
}

impl SessionSettings {
    /// Applies the settings that a run changes.
    fn change(&mut self, turn: &TurnOptions, model: &dyn Model) {
        let before = self.provider;
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
        if let Some(params) = &turn.provider_params {
            let stored = self.provider_params.get_or_insert_default();
            if before != self.provider {
                params::retain_search_switch(stored);
            }
            params::merge_stored(stored, params.clone());
        }
        if let Some(skills) = &turn.preload_skills {
            self.preload_skills.clone_from(skills);
        }
        if turn.structured_output_retries.is_some() {
            self.structured_output_retries = turn.structured_output_retries;
        }
        self.builtins = turn.builtins.or(self.builtins);
        self.files = turn.files.or(self.files);
        self.memory = turn.memory.or(self.memory);
        self.shell = turn.shell.or(self.shell);
        self.shell_timeout_secs = turn.shell_timeout_secs.or(self.shell_timeout_secs);
        self.approvals = turn.approvals.or(self.approvals);
        if let Some(tools) = turn.tools.as_ref().filter(|tools| !tools.is_empty()) {
            self.tools.clone_from(tools);
        }
    }
}

/// Returns warnings for parts of an output schema that the provider does not support; rejects a strict schema that
/// has any.
fn schema_warnings(schema: Option<&OutputSchema>, provider: Provider) -> Result<Vec<SchemaWarning>, Error> {
    let Some(schema) = schema else { return Ok(Vec::new()) };
    let warnings = features::schema_warnings(provider, &schema.schema);
    match warnings.first() {
        Some(first) if schema.compat == SchemaCompat::Strict => Err(Error::SchemaRules(format!(
            "{provider} does not support it: `{}`: {}",
            first.path, first.message
        ))),
        _ => Ok(warnings),
    }
}
