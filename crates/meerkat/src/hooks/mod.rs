//! Calling hooks: programs, addresses and functions of the owner's, at the points of a run.
//!
//! What they are told and what their answers mean is decided in the core. Here they are called, in time or not at
//! all: one that takes too long is ended with everything it started.

mod command;
#[cfg(feature = "mcp")]
mod files;

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use meerkat_core::{
    AgentEvent, Cut, Denial, DenialKind, Hook, HookEntry, HookFault, HookInvocation, HookMode, HookPoints,
    HookReason, HookReturn, HookRuntime, HookSet, Judgement, ToolCall, ToolFailure, ToolOutput, judge,
};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

#[cfg(feature = "mcp")]
pub use files::{HookFiles, HookFilesError, LoadedHooks};

use crate::Error;
use crate::config::HooksConfig;
use crate::features;
use crate::runtime::Shared;
use crate::session::Emitter;

/// The hooks that a process has of its own, and those that run in the background.
#[derive(Default)]
pub(crate) struct HookHost {
    #[cfg(feature = "mcp")]
    files: Option<Arc<HookFiles>>,
    registered: BTreeMap<String, Arc<dyn Hook>>,
    /// The executable that starts itself as the supervisor of a command.
    supervisor: Option<PathBuf>,
    background: TaskTracker,
    running: Arc<AtomicUsize>,
    closing: CancellationToken,
}

impl HookHost {
    pub(crate) fn new(registered: BTreeMap<String, Arc<dyn Hook>>, supervisor: Option<PathBuf>) -> Self {
        Self { registered, supervisor, ..Self::default() }
    }

    /// Has hooks of files before those of the config.
    #[cfg(feature = "mcp")]
    pub(crate) fn with_files(mut self, files: Option<Arc<HookFiles>>) -> Self {
        self.files = files;
        self
    }

    /// Lists the hooks of every run: those of files, then those of the config.
    pub(crate) async fn entries(&self, config: &HooksConfig) -> Result<Vec<HookEntry>, Error> {
        #[cfg(feature = "mcp")]
        if let Some(files) = self.files.clone() {
            // A disk that is slow must not hold up other runs.
            let read = tokio::task::spawn_blocking(move || files.entries()).await;
            let mut entries = read.map_err(|error| Error::Internal(error.to_string()))??;
            entries.extend(config.entries.iter().cloned());
            return Ok(entries);
        }
        Ok(config.entries.clone())
    }

    /// Waits for what runs in the background, and ends what is left when the time is up.
    pub(crate) async fn close(&self, patience: Duration) {
        self.background.close();
        if tokio::time::timeout(patience, self.background.wait()).await.is_err() {
            self.closing.cancel();
        }
    }
}

/// The hooks of one run.
#[derive(Clone)]
pub(crate) struct RunHooks {
    pub(crate) shared: Arc<Shared>,
    pub(crate) set: HookSet,
    pub(crate) config: HooksConfig,
    pub(crate) emitter: Arc<Emitter>,
}

impl RunHooks {
    pub(crate) fn points(&self) -> HookPoints {
        self.set.points()
    }

    /// Calls the hooks of a point: those that are waited for one after the other, until one refuses, and then those
    /// that are not.
    pub(crate) async fn consult(&self, invocation: &HookInvocation) -> Result<(), Denial> {
        let point = invocation.point;
        for entry in self.set.at(point, HookMode::Foreground).chain(self.set.at(point, HookMode::Background))
        {
            self.emitter.emit(AgentEvent::HookStarted { hook_id: entry.id.clone(), point });
        }
        let payload = Payload::of(invocation, self.config.payload_max_bytes);
        for entry in self.set.at(point, HookMode::Foreground) {
            self.ask(entry, invocation, &payload).await?;
        }
        for entry in self.set.at(point, HookMode::Background) {
            self.send_off(Arc::clone(entry), invocation.clone(), payload.clone());
        }
        Ok(())
    }

    /// Asks which calls may be run; all of them at once.
    pub(crate) async fn vet(
        &self,
        session: meerkat_core::SessionId,
        calls: Vec<ToolCall>,
    ) -> Vec<(String, ToolOutput)> {
        let mut asked = tokio::task::JoinSet::new();
        let mut places = HashMap::new();
        for (place, call) in calls.into_iter().enumerate() {
            let (own, id) = (self.clone(), call.id.clone());
            let task =
                asked.spawn(async move { own.consult(&HookInvocation::of_call(session, &call)).await });
            places.insert(task.id(), (place, id));
        }
        let mut denied = Vec::new();
        while let Some(answer) = asked.join_next_with_id().await {
            let (task, output) = match answer {
                Ok((_, Ok(()))) => continue,
                Ok((task, Err(denial))) => (task, denial.output()),
                // Without a verdict the call must not run.
                Err(error) => (error.id(), no_verdict()),
            };
            denied.extend(places.remove(&task).map(|(place, id)| (place, id, output)));
        }
        denied.sort_unstable_by_key(|(place, ..)| *place);
        denied.into_iter().map(|(_, id, output)| (id, output)).collect()
    }

    async fn ask(
        &self,
        entry: &HookEntry,
        invocation: &HookInvocation,
        payload: &Payload,
    ) -> Result<(), Denial> {
        let began = Instant::now();
        let answer = self.shared.call_hook(entry, invocation, payload, &self.config).await;
        let judgement = judge(entry, answer);
        let (hook_id, point) = (entry.id.clone(), entry.point);
        match judgement {
            Judgement::Allowed => {
                let duration_ms = began.elapsed().as_millis() as u64;
                self.emitter.emit(AgentEvent::HookCompleted { hook_id, point, duration_ms });
                Ok(())
            }
            Judgement::Tolerated(error) => {
                self.emitter.emit(AgentEvent::HookFailed { hook_id, point, error });
                Ok(())
            }
            Judgement::Denied(denial) => {
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

    /// Calls a hook that nobody waits for. Where too many are at work already, it is left out and that is said.
    fn send_off(&self, entry: Arc<HookEntry>, invocation: HookInvocation, payload: Payload) {
        let host = &self.shared.hooks;
        let limit = self.config.background_max_concurrency;
        let Some(slot) = Slot::take(&host.running, limit) else {
            let error = format!("left out: {limit} hooks are at work in the background already");
            let (hook_id, point) = (entry.id.clone(), entry.point);
            self.emitter.emit(AgentEvent::HookFailed { hook_id, point, error });
            return;
        };
        let (own, closing) = (self.clone(), host.closing.clone());
        host.background.spawn(async move {
            let _slot = slot;
            tokio::select! {
                _ = own.ask(&entry, &invocation, &payload) => {}
                () = closing.cancelled() => {}
            }
        });
    }
}

/// One of the background hooks that may run at once; dropping it frees the slot, however the hook ended.
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

/// The output of a call whose hooks ended without a verdict.
fn no_verdict() -> ToolOutput {
    ToolOutput::failure(ToolFailure::ExecutionFailed, "the hooks of this call crashed, so it was not run")
}

/// Runs a hook; a panic is a failure of the hook, which its failure policy decides on.
async fn contain_panic<T>(call: impl Future<Output = Result<T, HookFault>>) -> Result<T, HookFault> {
    let mut call = pin!(call);
    std::future::poll_fn(move |context| {
        catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(context)))
            .unwrap_or_else(|panic| Poll::Ready(Err(panicked(&*panic))))
    })
    .await
}

fn panicked(panic: &(dyn Any + Send)) -> HookFault {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    HookFault::broken(text.map_or_else(|| "it panicked".to_owned(), |text| format!("it panicked: {text}")))
}

/// What is sent to a hook outside the process, or why it cannot be.
#[derive(Clone)]
struct Payload(Result<Arc<[u8]>, HookFault>);

impl Payload {
    fn of(invocation: &HookInvocation, limit: usize) -> Self {
        let bytes = serde_json::to_vec(invocation).map_err(|error| HookFault::broken(error.to_string()));
        Self(bytes.and_then(|bytes| match bytes.len() {
            length if length > limit => Err(HookFault::broken(format!(
                "what it is to be told has {length} bytes, and `hooks.payload_max_bytes` is {limit}"
            ))),
            _ => Ok(bytes.into()),
        }))
    }
}

impl Shared {
    async fn call_hook(
        &self,
        entry: &HookEntry,
        invocation: &HookInvocation,
        payload: &Payload,
        config: &HooksConfig,
    ) -> Result<HookReturn, HookFault> {
        let limit = entry.timeout(config.default_timeout_ms);
        let call = contain_panic(self.reach_hook(entry, invocation, payload, config.payload_max_bytes));
        let answer = tokio::time::timeout(limit, call).await.unwrap_or_else(|_| {
            let message = format!("it took longer than {} ms and was ended", limit.as_millis());
            Err(HookFault { reason: HookReason::Timeout, message })
        });
        tracing::debug!(hook = entry.id, ok = answer.is_ok(), "a hook was called");
        answer.map_err(|mut fault| {
            // What a command wrote may have been cut in the middle of a secret.
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
    ) -> Result<HookReturn, HookFault> {
        entry.tell_secrets(&self.redactor);
        let output = match &entry.runtime {
            HookRuntime::InProcess { name } => {
                let unknown = || HookFault::broken(format!("no function is registered as `{name}`"));
                return self.hooks.registered.get(name).ok_or_else(unknown)?.call(invocation).await;
            }
            HookRuntime::Command { command, args, env } => {
                let input = payload.0.clone()?;
                let supervisor = self.hooks.supervisor.as_deref();
                let program = command::Program { command, args, env, supervisor };
                command::run(program, &self.secrets, input, limit).await?
            }
            HookRuntime::Http { url, method, headers } => {
                let headers: Vec<_> =
                    headers.expose().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
                let body = payload.0.clone()?;
                let reach = self.models.providers().reach();
                features::deliver(reach, (method, url), &headers, &body, limit).await?
            }
        };
        answer(self.redactor.redact(&String::from_utf8_lossy(&output)).as_bytes())
    }
}

/// Reads an answer; none at all lets the run go on.
fn answer(output: &[u8]) -> Result<HookReturn, HookFault> {
    if output.trim_ascii().is_empty() {
        return Ok(HookReturn::default());
    }
    serde_json::from_slice(output)
        .map_err(|error| HookFault::broken(format!("its answer is not what a hook answers: {error}")))
}
