//! Calls the owner's hooks (commands, URLs, and functions) at defined points of a run.
//!
//! The core defines the input of hooks and the meaning of their output. This module calls them and enforces their
//! timeouts: a hook that times out is killed along with everything it started.

mod command;
mod error;
#[cfg(feature = "mcp")]
mod files;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use meerkat_core::{
    AgentEvent, Cut, Denial, DenialKind, Hook, HookCapability, HookEntry, HookFailure, HookInvocation,
    HookMode, HookOutput, HookPoints, HookReason, HookRuntime, HookSet, HookVerdict, Redactor, ToolCall,
    ToolFailure, ToolOutput, evaluate_hook, excerpt,
};
use meerkat_fetch::Http;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

#[cfg(feature = "mcp")]
pub use files::{HookFiles, HookFilesError, LoadedHooks};

pub use error::HooksError;

use crate::config::{Config, ConfigAccess, HooksConfig};
use crate::events::Emitter;
use crate::panics::contain;
use crate::secrets::SecretSource;

/// The hooks registered by this process, and the running background hooks.
pub(crate) struct HookRunner {
    #[cfg(feature = "mcp")]
    files: Option<Arc<HookFiles>>,
    registered: BTreeMap<String, Arc<dyn Hook>>,
    /// The executable to start as the supervisor of a command.
    supervisor: Option<PathBuf>,
    secrets: SecretSource,
    redactor: Redactor,
    http: Http,
    background: TaskTracker,
    running: Arc<AtomicUsize>,
    closing: CancellationToken,
}

impl HookRunner {
    pub(crate) fn new(
        registered: BTreeMap<String, Arc<dyn Hook>>,
        supervisor: Option<PathBuf>,
        secrets: SecretSource,
        redactor: Redactor,
        http: Http,
    ) -> Self {
        Self {
            #[cfg(feature = "mcp")]
            files: None,
            registered,
            supervisor,
            secrets,
            redactor,
            http,
            background: TaskTracker::default(),
            running: Arc::default(),
            closing: CancellationToken::default(),
        }
    }

    /// Adds hooks from files, which come before those of the config.
    #[cfg(feature = "mcp")]
    pub(crate) fn with_files(mut self, files: Option<Arc<HookFiles>>) -> Self {
        self.files = files;
        self
    }

    /// Returns the hooks of a run, or `None` if it has none. The caller may only change what its access allows.
    pub(crate) async fn for_run(
        self: &Arc<Self>,
        config: &HooksConfig,
        overlay: &HookOverlay,
        access: ConfigAccess,
    ) -> Result<Option<HookSet>, HooksError> {
        let entries = self.entries(config).await?;
        let may_change = match access {
            ConfigAccess::Owner => true,
            ConfigAccess::Client => config.client_overrides,
            ConfigAccess::Anonymous => false,
        };
        if !may_change {
            overlay.check_access(&entries)?;
        }
        let set = HookSet::new(&entries, overlay.entries.clone(), &overlay.disable)
            .map_err(|error| HooksError::Invalid(error.to_string()))?;
        Ok((set != HookSet::default()).then_some(set))
    }

    /// Returns the hooks of every run: those from files, then those of the config.
    async fn entries(&self, config: &HooksConfig) -> Result<Vec<HookEntry>, HooksError> {
        #[cfg(feature = "mcp")]
        if let Some(files) = self.files.clone() {
            // A slow disk must not delay other runs.
            let mut entries = tokio::task::spawn_blocking(move || files.entries()).await??;
            entries.extend(config.entries.iter().cloned());
            return Ok(entries);
        }
        Ok(config.entries.clone())
    }

    /// Waits for background hooks, and cancels those that are still running after the timeout.
    pub(crate) async fn close(&self, timeout: Duration) {
        self.background.close();
        if tokio::time::timeout(timeout, self.background.wait()).await.is_err() {
            self.closing.cancel();
        }
    }
}

/// Changes to the configured hooks for one run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HookOverlay {
    /// Hooks to add to those of the config.
    pub entries: Vec<HookEntry>,
    /// Ids of configured hooks to disable.
    pub disable: Vec<String>,
}

impl HookOverlay {
    /// Rejects changes that would let a client start commands, send a run's content elsewhere, or disable the owner's
    /// guardrails.
    fn check_access(&self, configured: &[HookEntry]) -> Result<(), HooksError> {
        let is_external = |entry: &&HookEntry| !matches!(entry.runtime, HookRuntime::InProcess { .. });
        let is_disabled_guardrail = |entry: &&HookEntry| {
            entry.capability == HookCapability::Guardrail && self.disable.contains(&entry.id)
        };
        let external = self.entries.iter().find(is_external);
        let what = match (external, configured.iter().find(is_disabled_guardrail)) {
            (Some(entry), _) => format!("the hook `{}`, which is a command or a URL,", excerpt(&entry.id)),
            (None, Some(entry)) => format!("disabling the guardrail `{}`", entry.id),
            (None, None) => return Ok(()),
        };
        Err(HooksError::Protected { what })
    }
}

/// The hooks of one run.
#[derive(Clone)]
pub(crate) struct RunHooks {
    pub(crate) runner: Arc<HookRunner>,
    pub(crate) set: HookSet,
    pub(crate) config: Arc<Config>,
    pub(crate) emitter: Arc<Emitter>,
}

impl RunHooks {
    pub(crate) fn points(&self) -> HookPoints {
        self.set.points()
    }

    /// Calls the hooks of a point: first the foreground hooks, one after the other, until one denies; then the
    /// background hooks.
    pub(crate) async fn call_hooks(&self, invocation: &HookInvocation) -> Result<(), Denial> {
        let point = invocation.point;
        for entry in self.set.at(point, HookMode::Foreground).chain(self.set.at(point, HookMode::Background))
        {
            self.emitter.emit(AgentEvent::HookStarted { hook_id: entry.id.clone(), point });
        }
        let payload = Payload::new(invocation, self.config.hooks.payload_max_bytes);
        for entry in self.set.at(point, HookMode::Foreground) {
            self.run_hook(entry, invocation, &payload).await?;
        }
        for entry in self.set.at(point, HookMode::Background) {
            self.spawn_hook(Arc::clone(entry), invocation.clone(), payload.clone());
        }
        Ok(())
    }

    /// Checks all calls concurrently; returns the outputs of those that are denied.
    pub(crate) async fn check_calls(
        &self,
        session: meerkat_core::SessionId,
        calls: Vec<ToolCall>,
    ) -> Vec<(String, ToolOutput)> {
        let mut tasks = tokio::task::JoinSet::new();
        let mut positions = HashMap::new();
        for (position, call) in calls.into_iter().enumerate() {
            let (hooks, id) = (self.clone(), call.id.clone());
            let task =
                tasks.spawn(async move { hooks.call_hooks(&HookInvocation::for_call(session, &call)).await });
            positions.insert(task.id(), (position, id));
        }
        let mut denied = Vec::new();
        while let Some(result) = tasks.join_next_with_id().await {
            let (task, output) = match result {
                Ok((_, Ok(()))) => continue,
                Ok((task, Err(denial))) => (task, denial.output()),
                // Without a verdict, the call must not run.
                Err(error) => (error.id(), no_verdict()),
            };
            denied.extend(positions.remove(&task).map(|(position, id)| (position, id, output)));
        }
        denied.sort_unstable_by_key(|(position, ..)| *position);
        denied.into_iter().map(|(_, id, output)| (id, output)).collect()
    }

    async fn run_hook(
        &self,
        entry: &HookEntry,
        invocation: &HookInvocation,
        payload: &Payload,
    ) -> Result<(), Denial> {
        let started = Instant::now();
        let output = self.runner.call_hook(entry, invocation, payload, &self.config.hooks).await;
        let verdict = evaluate_hook(entry, output);
        let (hook_id, point) = (entry.id.clone(), entry.point);
        match verdict {
            HookVerdict::Allowed => {
                let duration_ms = started.elapsed().as_millis() as u64;
                self.emitter.emit(AgentEvent::HookCompleted { hook_id, point, duration_ms });
                Ok(())
            }
            HookVerdict::Tolerated(error) => {
                self.emitter.emit(AgentEvent::HookFailed { hook_id, point, error });
                Ok(())
            }
            HookVerdict::Denied(denial) => {
                if denial.kind == DenialKind::Failed {
                    let error = denial.message.clone();
                    self.emitter.emit(AgentEvent::HookFailed { hook_id: hook_id.clone(), point, error });
                }
                let Denial { reason_code, message, payload, .. } = denial.clone();
                self.emitter.emit(AgentEvent::HookDenied { hook_id, point, reason_code, message, payload });
                Err(denial)
            }
        }
    }

    /// Calls a hook in the background. If too many background hooks are running, it is skipped and reported as failed.
    fn spawn_hook(&self, entry: Arc<HookEntry>, invocation: HookInvocation, payload: Payload) {
        let host = &self.runner;
        let limit = self.config.hooks.background_max_concurrency;
        let Some(slot) = Slot::take(&host.running, limit) else {
            let error = format!("skipped: {limit} background hooks are already running");
            let (hook_id, point) = (entry.id.clone(), entry.point);
            self.emitter.emit(AgentEvent::HookFailed { hook_id, point, error });
            return;
        };
        let (hooks, closing) = (self.clone(), host.closing.clone());
        host.background.spawn(async move {
            let _slot = slot;
            tokio::select! {
                _ = hooks.run_hook(&entry, &invocation, &payload) => {}
                () = closing.cancelled() => {}
            }
        });
    }
}

/// Slot of a concurrent background hook; dropping it frees the slot, even if the hook panicked.
struct Slot(Arc<AtomicUsize>);

impl Slot {
    fn take(running: &Arc<AtomicUsize>, limit: usize) -> Option<Self> {
        let slot = Self(Arc::clone(running));
        (running.fetch_add(1, Ordering::AcqRel) < limit).then_some(slot)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Returns the output of a call whose hooks ended without a verdict.
fn no_verdict() -> ToolOutput {
    ToolOutput::failure(ToolFailure::ExecutionFailed, "not run: the hooks of this call crashed")
}

/// Input of an external hook, or the reason it cannot be sent.
#[derive(Clone)]
struct Payload(Result<Arc<[u8]>, HookFailure>);

impl Payload {
    fn new(invocation: &HookInvocation, limit: usize) -> Self {
        let bytes =
            serde_json::to_vec(invocation).map_err(|error| HookFailure::runtime_error(error.to_string()));
        Self(bytes.and_then(|bytes| match bytes.len() {
            length if length > limit => Err(HookFailure::runtime_error(format!(
                "its input has {length} bytes, more than `hooks.payload_max_bytes` ({limit})"
            ))),
            _ => Ok(bytes.into()),
        }))
    }
}

impl HookRunner {
    async fn call_hook(
        &self,
        entry: &HookEntry,
        invocation: &HookInvocation,
        payload: &Payload,
        config: &HooksConfig,
    ) -> Result<HookOutput, HookFailure> {
        let limit = entry.timeout(config.default_timeout_ms);
        // A panic counts as a failure of the hook, to which the hook's failure policy applies.
        let call = contain(self.reach_hook(entry, invocation, payload, config.payload_max_bytes));
        let called = tokio::time::timeout(limit, call).await;
        let contained =
            called.map(|output| output.unwrap_or_else(|panic| Err(HookFailure::runtime_error(panic))));
        let output = contained.unwrap_or_else(|_| {
            let message = format!("timed out after {} ms", limit.as_millis());
            Err(HookFailure { reason: HookReason::Timeout, message })
        });
        tracing::debug!(hook = entry.id, ok = output.is_ok(), "hook called");
        output.map_err(|mut fault| {
            // The command's output may have been cut in the middle of a secret.
            fault.message = self.redactor.redact_cut(&fault.message, Cut::End).into_owned();
            fault
        })
    }

    async fn reach_hook(
        &self,
        entry: &HookEntry,
        invocation: &HookInvocation,
        payload: &Payload,
        limit: usize,
    ) -> Result<HookOutput, HookFailure> {
        entry.register_secrets(&self.redactor);
        let output = match &entry.runtime {
            HookRuntime::InProcess { name } => {
                let unknown = || HookFailure::runtime_error(format!("no function is registered as `{name}`"));
                return self.registered.get(name).ok_or_else(unknown)?.call(invocation).await;
            }
            HookRuntime::Command { command, args, env } => {
                let input = payload.0.clone()?;
                let supervisor = self.supervisor.as_deref();
                let command_line = command::HookCommand { command, args, env, supervisor };
                command::run(command_line, &self.secrets, input, limit).await?
            }
            HookRuntime::Http { url, method, headers } => {
                let headers: Vec<_> =
                    headers.expose().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
                let body = payload.0.clone()?;
                let response = self.http.send((method, url), &headers, &body, limit).await;
                response.map_err(|error| HookFailure::runtime_error(error.to_string()))?
            }
        };
        parse_output(self.redactor.redact(&String::from_utf8_lossy(&output)).as_bytes())
    }
}

/// Parses the output of a hook. Empty output lets the run continue.
fn parse_output(output: &[u8]) -> Result<HookOutput, HookFailure> {
    if output.trim_ascii().is_empty() {
        return Ok(HookOutput::default());
    }
    serde_json::from_slice(output)
        .map_err(|error| HookFailure::runtime_error(format!("invalid output: {error}")))
}
