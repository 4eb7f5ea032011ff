//! The spans of a run, named after the OpenTelemetry conventions for generative AI: `invoke_agent` around the run, and
//! in it a `chat` for each model call and an `execute_tool` for each tool call.
//!
//! Without a subscriber they cost next to nothing. They contain message content only if a subscriber enables it.

use std::sync::Arc;

use meerkat_core::run::{Input, Outcome};
use meerkat_core::{
    AssistantBlock, Message, ModelInfo, ModelRequest, Provider, RunId, SessionId, StopReason, ToolCall,
    ToolOutput, TraceContext, Usage,
};
use serde_json::{Value, json};
use tracing::field::Empty;
use tracing::{Level, Span};
use uuid::Uuid;

use super::drive_result::DriveResult;
use super::model_call::{MediaMode, ModelCall};

/// Agent name in spans.
const AGENT: &str = "meerkat";

/// Returns `true` if a subscriber wants message content.
fn wants_content() -> bool {
    tracing::enabled!(target: "meerkat::content", Level::TRACE)
}

fn new_id() -> u64 {
    Uuid::new_v4().as_u64_pair().1
}

/// A run's span and trace context.
///
/// This type is small because every waiting run holds one. Child spans name the run's span as their parent explicitly,
/// because entering it would be more expensive.
#[derive(Clone)]
pub(super) struct RunTrace(Arc<TraceInner>);

struct TraceInner {
    span: Span,
    session: SessionId,
    /// The run's trace context, or its caller's if traces are not recorded.
    context: Option<Arc<TraceContext>>,
    /// The session's token usage before the run.
    used: Usage,
}

impl RunTrace {
    pub(super) fn begin(
        session: SessionId,
        run: RunId,
        model: &ModelInfo,
        used: Usage,
        caller: Option<Arc<TraceContext>>,
    ) -> Self {
        let span = tracing::info_span!(
            "invoke_agent",
            otel.name = "invoke_agent meerkat",
            otel.kind = "internal",
            otel.trace_id = Empty,
            otel.span_id = Empty,
            otel.parent_id = Empty,
            otel.sampled = Empty,
            otel.state = Empty,
            otel.failure = Empty,
            gen_ai.operation.name = "invoke_agent",
            gen_ai.agent.name = AGENT,
            gen_ai.provider.name = provider(model.provider),
            gen_ai.request.model = model.id,
            gen_ai.conversation.id = %session,
            gen_ai.usage.input_tokens = Empty,
            gen_ai.usage.output_tokens = Empty,
            gen_ai.usage.cache_read.input_tokens = Empty,
            gen_ai.usage.cache_creation.input_tokens = Empty,
            error.type = Empty,
            meerkat.run.id = %run,
            meerkat.run.end = Empty,
            meerkat.run.steps = Empty,
            meerkat.run.tool_calls = Empty,
            meerkat.session.cost_usd = Empty,
        );
        let is_traced = tracing::enabled!(target: "meerkat::traced", Level::INFO);
        let context =
            if is_traced { Some(Arc::new(record_context(&span, caller.as_deref()))) } else { caller };
        Self(Arc::new(TraceInner { span, session, context, used }))
    }

    /// Starts the span of a tool call, and returns it with the trace context for requests that the tool makes.
    pub(super) fn tool(&self, call: &ToolCall) -> (Span, Option<Arc<TraceContext>>) {
        let span = tracing::info_span!(
            parent: &self.0.span,
            "execute_tool",
            otel.name = format!("execute_tool {}", call.name),
            otel.kind = "internal",
            otel.span_id = Empty,
            otel.failure = Empty,
            gen_ai.operation.name = "execute_tool",
            gen_ai.tool.name = call.name,
            gen_ai.tool.call.id = call.id,
            gen_ai.tool.type = "function",
            gen_ai.tool.call.arguments = Empty,
            gen_ai.tool.call.result = Empty,
            gen_ai.conversation.id = %self.0.session,
            error.type = Empty,
        );
        if wants_content() {
            span.record("gen_ai.tool.call.arguments", call.args.to_string());
        }
        let is_traced = tracing::enabled!(target: "meerkat::traced", Level::INFO);
        let context = self.0.context.as_ref().map(|run| match is_traced {
            true => {
                let child = run.child(new_id());
                span.record("otel.span_id", child.span_id);
                Arc::new(child)
            }
            false => Arc::clone(run),
        });
        (span, context)
    }

    /// Starts the span of a model call.
    pub(super) fn chat(&self, call: &ModelCall) -> Span {
        let (info, request) = (call.model.info(), &call.request);
        let purpose = match (&call.validator, call.media) {
            (Some(_), _) => "extract",
            (None, MediaMode::Placeholder) => "summarise",
            (None, MediaMode::Inline) => "step",
        };
        let span = tracing::info_span!(
            parent: &self.0.span,
            "chat",
            otel.name = format!("chat {}", info.id),
            otel.kind = "client",
            otel.failure = Empty,
            gen_ai.operation.name = "chat",
            gen_ai.provider.name = provider(info.provider),
            gen_ai.request.model = info.id,
            gen_ai.request.max_tokens = request.max_tokens,
            gen_ai.request.temperature = request.temperature.map(f64::from),
            gen_ai.conversation.id = %self.0.session,
            gen_ai.response.finish_reasons = Empty,
            gen_ai.usage.input_tokens = Empty,
            gen_ai.usage.output_tokens = Empty,
            gen_ai.usage.cache_read.input_tokens = Empty,
            gen_ai.usage.cache_creation.input_tokens = Empty,
            gen_ai.system_instructions = Empty,
            gen_ai.input.messages = Empty,
            gen_ai.output.messages = Empty,
            error.type = Empty,
            meerkat.chat.purpose = purpose,
        );
        span.in_scope(|| tracing::debug!(purpose, model = info.id, "calling the model"));
        if wants_content() {
            let instructions = json!([{ "type": "text", "content": request.system }]);
            span.record("gen_ai.system_instructions", instructions.to_string());
            span.record("gen_ai.input.messages", input_messages(request).to_string());
        }
        span
    }

    /// Records the end of the run.
    pub(super) fn end(&self, result: &Result<DriveResult, String>) {
        let report = match result {
            Ok(DriveResult::Ended(report)) => report,
            Ok(DriveResult::Rejected(error) | DriveResult::NotPersisted(error)) => {
                return self.record_failure("refused", variant_name(&error.kind()), &error.to_string());
            }
            Err(_) => return self.record_failure("broken_off", "panic", "the run crashed"),
        };
        let (now, before) = (report.usage, self.0.used);
        let difference =
            |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before.unwrap_or(0)));
        record_usage(
            &self.0.span,
            Usage {
                input_tokens: now.input_tokens.saturating_sub(before.input_tokens),
                output_tokens: now.output_tokens.saturating_sub(before.output_tokens),
                cache_creation_tokens: difference(now.cache_creation_tokens, before.cache_creation_tokens),
                cache_read_tokens: difference(now.cache_read_tokens, before.cache_read_tokens),
            },
        );
        self.0.span.record("meerkat.run.steps", report.steps);
        self.0.span.record("meerkat.run.tool_calls", report.tool_calls);
        if let Some(cost) = report.cost {
            self.0.span.record("meerkat.session.cost_usd", cost.micros() as f64 / 1e6);
        }
        match &report.outcome {
            Outcome::Completed(_) => self.record_end("completed"),
            Outcome::Pending(_) => self.record_end("pending"),
            Outcome::Cancelled => self.record_failure("cancelled", "cancelled", "the run was interrupted"),
            Outcome::Failed(failure) => {
                self.record_failure("failed", variant_name(&failure.class), &failure.message)
            }
        }
    }

    fn record_end(&self, end: &str) {
        self.0.span.record("meerkat.run.end", end);
        self.0.span.in_scope(|| tracing::info!(end, "the run ended"));
    }

    fn record_failure(&self, end: &str, error_type: impl AsRef<str>, message: &str) {
        self.0.span.record("error.type", error_type.as_ref());
        self.0.span.record("otel.failure", message);
        self.record_end(end);
    }
}

/// Records a trace context in a run's span, as a child of the caller's or in a new trace, and returns it.
fn record_context(span: &Span, caller: Option<&TraceContext>) -> TraceContext {
    let parent = caller.map_or(0, |caller| caller.span_id);
    let context = match caller {
        Some(caller) => caller.child(new_id()),
        None => TraceContext {
            trace_id: Uuid::new_v4().as_u128(),
            span_id: new_id(),
            flags: TraceContext::SAMPLED,
            state: None,
        },
    };
    span.record("otel.trace_id", context.trace_id).record("otel.span_id", context.span_id);
    span.record("otel.parent_id", parent).record("otel.sampled", context.is_sampled());
    if let Some(state) = &context.state {
        span.record("otel.state", state.as_str());
    }
    context
}

/// Records the end of a model call.
pub(super) fn record_model_call(span: &Span, input: &Input) {
    match input {
        Input::ModelResponded(response) => {
            record_usage(span, response.usage);
            span.record("gen_ai.response.finish_reasons", finish_reason(response.stop_reason));
            if wants_content() {
                let output = json!([{
                    "role": "assistant",
                    "parts": response.blocks.iter().map(part).collect::<Vec<_>>(),
                    "finish_reason": finish_reason(response.stop_reason),
                }]);
                span.record("gen_ai.output.messages", output.to_string());
            }
        }
        Input::Extracted { text, usage, .. } => {
            record_usage(span, *usage);
            if wants_content() {
                let parts = json!([{ "type": "text", "content": text }]);
                let output = json!([{ "role": "assistant", "parts": parts, "finish_reason": "stop" }]);
                span.record("gen_ai.output.messages", output.to_string());
            }
        }
        Input::Failed(error) => {
            span.record("error.type", variant_name(&error.kind))
                .record("otel.failure", error.message.as_str());
            span.in_scope(|| tracing::debug!(error = error.message, "the model call failed"));
        }
        _ => {}
    }
}

/// Records the result of a tool call.
pub(super) fn record_tool_call(span: &Span, output: &ToolOutput) {
    if output.is_error && !span.is_disabled() {
        let text = output.content.to_text();
        let json: Option<Value> = serde_json::from_str(&text).ok();
        let code = json.as_ref().and_then(|json| json.get("error")?.as_str());
        let code =
            code.filter(|code| code.len() <= 40 && code.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'));
        span.record("error.type", code.unwrap_or("tool_error"));
        // A tool's error message may be content.
        span.record("otel.failure", "the tool failed");
    }
    if wants_content() {
        span.record("gen_ai.tool.call.result", output.content.to_text());
    }
    span.in_scope(|| tracing::debug!(is_error = output.is_error, "tool call finished"));
}

fn record_usage(span: &Span, usage: Usage) {
    span.record("gen_ai.usage.input_tokens", usage.input_tokens);
    span.record("gen_ai.usage.output_tokens", usage.output_tokens);
    if let Some(tokens) = usage.cache_read_tokens {
        span.record("gen_ai.usage.cache_read.input_tokens", tokens);
    }
    if let Some(tokens) = usage.cache_creation_tokens {
        span.record("gen_ai.usage.cache_creation.input_tokens", tokens);
    }
}

/// Returns the OpenTelemetry name of a provider.
const fn provider(provider: Provider) -> &'static str {
    match provider {
        Provider::Gemini => "gcp.gemini",
        other => other.as_str(),
    }
}

const fn finish_reason(reason: StopReason) -> &'static str {
    match reason {
        StopReason::EndTurn | StopReason::StopSequence => "stop",
        StopReason::ToolUse => "tool_calls",
        StopReason::MaxTokens => "length",
        StopReason::ContentFilter => "content_filter",
        StopReason::Cancelled => "cancelled",
    }
}

/// Returns the serialized name of a variant.
fn variant_name(variant: &impl serde::Serialize) -> String {
    serde_json::to_value(variant).ok().and_then(|name| Some(name.as_str()?.to_owned())).unwrap_or_default()
}

fn input_messages(request: &ModelRequest) -> Value {
    let text =
        |role: &str, text: String| json!({ "role": role, "parts": [{ "type": "text", "content": text }] });
    let message = |message: &Message| match message {
        Message::User { content, .. } => text("user", content.to_text()),
        Message::SystemNotice { body: content, .. } | Message::System { content, .. } => {
            text("system", content.clone())
        }
        Message::Assistant { blocks, .. } => {
            json!({ "role": "assistant", "parts": blocks.iter().map(part).collect::<Vec<_>>() })
        }
        Message::ToolResults { results, .. } => {
            let parts = results.iter().map(|result| {
                json!({ "type": "tool_call_response", "id": result.tool_use_id, "response": result.content.to_text() })
            });
            json!({ "role": "tool", "parts": parts.collect::<Vec<_>>() })
        }
    };
    request.messages.iter().map(|item| message(item)).collect()
}

fn part(block: &AssistantBlock) -> Value {
    match block {
        AssistantBlock::Text { text, .. } => json!({ "type": "text", "content": text }),
        AssistantBlock::Reasoning { text, .. } => json!({ "type": "reasoning", "content": text }),
        AssistantBlock::ToolUse { id, name, args, .. } => {
            json!({ "type": "tool_call", "id": id, "name": name, "arguments": args })
        }
        AssistantBlock::ServerToolContent { name, .. } => json!({ "type": "server_tool", "name": name }),
        AssistantBlock::Image(_) => json!({ "type": "image" }),
    }
}
