//! Model calls of a run: their requests, and sending them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use meerkat_core::run::{Input, ModelTask, Run};
use meerkat_core::{
    AgentEvent, AssistantBlock, Delta, HookRequest, Model, ModelError, ModelErrorKind, ModelRequest,
    ToolConfigChange, ToolConfigOperation,
};
use meerkat_store::Store;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::media::inline_blobs;
use super::step_tools::StepTools;
use crate::config::{CallTimeout, RetryConfig};
use crate::events::Emitter;
use crate::models::params;
use crate::schema::OutputValidator;

/// The model of a run, and what all of its calls have in common.
pub(super) struct ModelCalls {
    pub(super) model: Arc<dyn Model>,
    /// The part of a request that is the same in every step; its tools are those of the current step.
    pub(super) request: ModelRequest,
    pub(super) validator: Option<OutputValidator>,
}

/// A model call to run.
pub(super) struct ModelCall {
    pub(super) model: Arc<dyn Model>,
    pub(super) request: ModelRequest,
    pub(super) limits: CallLimits,
    /// Whether the response is streamed to listeners.
    pub(super) audience: Streaming,
    /// Whether stored media is inlined for the model.
    pub(super) media: MediaMode,
    /// Validator of the response, if it must be a structured output.
    pub(super) validator: Option<OutputValidator>,
}

/// Time limits of a model call.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallLimits {
    /// Maximum time in which nothing arrives.
    silence: Duration,
    /// Maximum time of the call.
    total: Duration,
}

impl CallLimits {
    /// Waits for a call, or returns why it took too long. `heard` is the time at which something last arrived.
    async fn apply<T>(self, call: impl Future<Output = T>, heard: &Mutex<Instant>) -> Result<T, String> {
        let mut call = std::pin::pin!(call);
        let end = Instant::now() + self.total;
        loop {
            let silent_at = *heard.lock().unwrap_or_else(PoisonError::into_inner) + self.silence;
            tokio::select! {
                biased;
                result = &mut call => return Ok(result),
                () = tokio::time::sleep_until(silent_at.min(end)) => {}
            }
            if Instant::now() >= end {
                return Err(format!("no complete response within {} s", self.total.as_secs_f32()));
            }
            if *heard.lock().unwrap_or_else(PoisonError::into_inner) + self.silence == silent_at {
                return Err(format!("no response within {} s", self.silence.as_secs_f32()));
            }
        }
    }
}

/// Whether a response is streamed to listeners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Streaming {
    On,
    Off,
}

/// Whether a model gets stored media inline or as a text placeholder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MediaMode {
    Inline,
    Placeholder,
}

impl ModelCalls {
    /// Estimates the tokens of the context window reserved for everything except the conversation: the system prompt,
    /// the tools, and the response.
    fn reserved_tokens(&self) -> u64 {
        let tools: usize = self
            .request
            .tools
            .iter()
            .map(|tool| tool.name.len() + tool.description.len() + tool.input_schema.to_string().len())
            .sum();
        let fixed = (self.request.system.len() + tools) as u64 / 4;
        let window = self.model.info().context_window.unwrap_or(u64::MAX);
        fixed + u64::from(self.request.max_tokens).min(window / 4)
    }

    /// Returns the time limits of one model call.
    fn limits(&self, retry: &RetryConfig) -> CallLimits {
        const DEFAULT: Duration = Duration::from_secs(600);
        const FOREVER: Duration = Duration::from_secs(30 * 24 * 3600);
        let silence = match retry.call_timeout {
            Some(CallTimeout::Disabled) => FOREVER,
            Some(CallTimeout::After(span)) => span.0,
            None => self.model.info().call_timeout.unwrap_or(DEFAULT),
        };
        let total = retry.max_call_duration.map_or(FOREVER, |span| span.0);
        // Longer times are beyond the clock's range on some systems.
        CallLimits { silence: silence.min(FOREVER), total: total.min(FOREVER) }
    }

    /// Builds the call for a task of the state machine.
    pub(super) fn prepare(&self, task: ModelTask, run: &Run, tools: &StepTools) -> ModelCall {
        let limits = self.limits(&tools.config.retry);
        let mut request = self.request.clone();
        let (mut audience, mut media, mut validator) = (Streaming::Off, MediaMode::Inline, None);
        match task {
            ModelTask::Step => {
                audience = Streaming::On;
                request.messages = run.context(self.reserved_tokens());
                request.messages.extend(tools.notices());
            }
            ModelTask::Extract(prompts) => {
                request.messages = run.context(self.reserved_tokens());
                request.messages.extend(prompts);
                request.tools = Arc::default();
                request.temperature = Some(0.0);
                request.provider_params = without_tools(request.provider_params);
                request.output_schema = self.validator.as_ref().map(OutputValidator::schema);
                validator.clone_from(&self.validator);
            }
            ModelTask::Summarize { messages, max_tokens } => {
                // A summary is based on the text about images, not on the images.
                media = MediaMode::Placeholder;
                request.messages = messages;
                request.tools = Arc::default();
                request.max_tokens = max_tokens;
                request.provider_params = without_tools(request.provider_params);
            }
        }
        ModelCall { model: Arc::clone(&self.model), request, limits, audience, media, validator }
    }

    /// Returns what hooks see of a step's request.
    pub(super) fn for_hooks(&self, run: &Run) -> HookRequest {
        HookRequest {
            max_tokens: self.request.max_tokens,
            temperature: self.request.temperature,
            provider_params: self.request.provider_params.as_deref().cloned(),
            message_count: run.transcript().context().len() as u64,
        }
    }
}

impl ModelCall {
    /// Calls the model, and returns the result for the state machine.
    pub(super) async fn send(
        mut self,
        emitter: &Emitter,
        store: &dyn Store,
        streamed: &Mutex<String>,
    ) -> Input {
        if self.media == MediaMode::Inline {
            let messages = std::mem::take(&mut self.request.messages);
            self.request.messages = inline_blobs(store, self.model.info(), messages).await;
        }
        let audience = self.audience;
        let heard = Mutex::new(Instant::now());
        let sink = |delta: Delta| {
            *heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
            if audience == Streaming::On {
                emitter.emit(match delta {
                    Delta::Received => return,
                    Delta::Text(delta) => {
                        streamed.lock().unwrap_or_else(PoisonError::into_inner).push_str(&delta);
                        AgentEvent::TextDelta { delta }
                    }
                    Delta::Reasoning(delta) => AgentEvent::ReasoningDelta { delta },
                    Delta::ToolOmitted { tool, reason } => tool_omitted(tool, &reason),
                });
            }
        };
        let response = match self.limits.apply(self.model.generate(&self.request, &sink), &heard).await {
            Ok(Ok(response)) if response.exceeds_max_depth() => {
                let message = "the response is nested too deeply to store".to_owned();
                return self.failed(ModelErrorKind::Malformed, message);
            }
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Input::Failed(error),
            Err(message) => return self.failed(ModelErrorKind::CallTimeout, message),
        };
        match self.validator.clone() {
            None => Input::ModelResponded(response),
            Some(validator) => {
                let text: String = response
                    .blocks
                    .iter()
                    .filter_map(|block| match block {
                        AssistantBlock::Text { text, .. } => Some(text.as_str()),
                        _ => None,
                    })
                    .collect();
                // Large values take long, and must not hold up other runs.
                let judged = spawn_blocking(move || (validator.validate(&text), text)).await;
                match judged {
                    Ok((verdict, text)) => Input::Extracted { text, usage: response.usage, verdict },
                    Err(_) => {
                        self.failed(ModelErrorKind::Malformed, "cannot validate the response".to_owned())
                    }
                }
            }
        }
    }

    fn failed(&self, kind: ModelErrorKind, message: String) -> Input {
        let provider = self.model.info().provider;
        Input::Failed(ModelError { kind, provider, status: None, retry_after: None, message })
    }
}

/// Returns the event for a tool that was omitted from a model request.
fn tool_omitted(tool: String, reason: &str) -> AgentEvent {
    let payload = ToolConfigChange {
        operation: ToolConfigOperation::Remove,
        target: tool,
        status: format!("omitted from the request: {reason}"),
        status_info: Some(json!({ "kind": "warning_failed_closed", "error": reason })),
        persisted: false,
        applied_at_turn: None,
        domain: Some("tool_scope".to_owned()),
        deferred_catalog_delta: None,
    };
    AgentEvent::ToolConfigChanged { payload }
}

/// Removes provider-run tools from the parameters of a request.
fn without_tools(params: Option<Arc<Value>>) -> Option<Arc<Value>> {
    match params.map(Arc::unwrap_or_clone) {
        Some(Value::Object(params)) => Some(Arc::new(Value::Object(params::without_tools(params)))),
        other => other.map(Arc::new),
    }
}
