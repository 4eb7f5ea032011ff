//! Decoding of worker messages.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::observe::{Observe, Source, Target};

/// A message of a worker. Unknown messages are rejected with an error and ignored.
#[derive(Debug)]
pub(crate) enum Inbound<'a> {
    RegisterFunction(RegisterFunction<'a>),
    UnregisterFunction(String),
    RegisterTriggerType(RegisterTriggerType<'a>),
    UnregisterTriggerType(String),
    RegisterTrigger(RegisterTrigger<'a>),
    UnregisterTrigger(String),
    TriggerRegistrationResult(String, Option<&'a RawValue>),
    Invoke(Invoke<'a>),
    InvocationResult(Uuid, Outcome<'a>),
    Observe(Observe<'a>),
    Unobserve(String),
    Reattach {
        previous: String,
        token: Option<String>,
    },
    Ping,
    /// A message that needs no answer and changes nothing.
    Nothing,
}

#[derive(Debug)]
pub(crate) struct RegisterFunction<'a> {
    pub(crate) id: String,
    pub(crate) description: Option<String>,
    pub(crate) request_format: Option<&'a RawValue>,
    pub(crate) response_format: Option<&'a RawValue>,
    pub(crate) metadata: Option<&'a RawValue>,
    pub(crate) invocation: Option<&'a RawValue>,
}

#[derive(Debug)]
pub(crate) struct RegisterTriggerType<'a> {
    pub(crate) id: String,
    pub(crate) description: Option<String>,
    pub(crate) request_format: Option<&'a RawValue>,
    pub(crate) response_format: Option<&'a RawValue>,
}

#[derive(Debug)]
pub(crate) struct RegisterTrigger<'a> {
    pub(crate) id: String,
    pub(crate) trigger_type: String,
    pub(crate) function_id: String,
    pub(crate) config: Option<&'a RawValue>,
    pub(crate) metadata: Option<&'a RawValue>,
}

#[derive(Debug)]
pub(crate) struct Invoke<'a> {
    /// Also verbatim, because the answer repeats it.
    pub(crate) id: Option<(Uuid, Cow<'a, str>)>,
    pub(crate) function_id: Cow<'a, str>,
    pub(crate) data: &'a str,
    pub(crate) action: Action,
    pub(crate) trace: Trace,
    pub(crate) metadata: Option<&'a RawValue>,
    /// Number of observers that led to the call.
    pub(crate) depth: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    Call,
    Void,
    Enqueue { queue: String },
}

/// Trace context, which is only forwarded.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trace {
    pub(crate) parent: Option<String>,
    pub(crate) baggage: Option<String>,
}

/// The result of a call, if it has one, or its error, as JSON.
pub(crate) type Outcome<'a> = Result<Option<&'a str>, &'a str>;

/// Reason a message is ignored.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DecodeError {
    #[error("invalid message: {0}")]
    Json(#[from] serde_json::Error),
    #[error("unknown type `{0}`")]
    Type(String),
    #[error("`{0}` is missing or blank")]
    Missing(&'static str),
    #[error("invocation id `{0}` is not a UUID")]
    Id(String),
    #[error("unknown action `{0}`")]
    Action(String),
}

/// All fields of all messages, so that a message is parsed once, whatever its type.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    id: Option<String>,
    function_id: Option<Text<'a>>,
    invocation_id: Option<Text<'a>>,
    trigger_type: Option<String>,
    description: Option<String>,
    #[serde(default, deserialize_with = "verbatim")]
    data: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "verbatim")]
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    config: Option<&'a RawValue>,
    metadata: Option<&'a RawValue>,
    request_format: Option<&'a RawValue>,
    args_format: Option<&'a RawValue>,
    response_format: Option<&'a RawValue>,
    trigger_request_format: Option<&'a RawValue>,
    call_request_format: Option<&'a RawValue>,
    invocation: Option<&'a RawValue>,
    action: Option<ActionField>,
    traceparent: Option<String>,
    baggage: Option<String>,
    source: Option<Source>,
    target: Option<Target>,
    max_fires: Option<u64>,
    max_in_flight: Option<u32>,
    expires_in_ms: Option<u64>,
    observe_depth: Option<u32>,
    previous_worker_id: Option<String>,
    reattach_token: Option<String>,
}

/// A string that is borrowed if it has no escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
struct ActionField {
    #[serde(rename = "type")]
    kind: String,
    queue: Option<String>,
}

/// Deserializes a value that is present, including `null`.
fn verbatim<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Decodes one message.
pub(crate) fn decode(text: &str) -> Result<Inbound<'_>, DecodeError> {
    if text.trim_start().is_empty() {
        return Ok(Inbound::Nothing);
    }
    let envelope: Envelope<'_> = serde_json::from_str(text)?;
    match &*envelope.kind {
        "invokefunction" => invoke(envelope),
        "invocationresult" => outcome(envelope),
        "registerfunction" => Ok(Inbound::RegisterFunction(RegisterFunction {
            id: required(envelope.id, "id")?,
            description: envelope.description,
            request_format: envelope.request_format.or(envelope.args_format),
            response_format: envelope.response_format,
            metadata: envelope.metadata,
            invocation: envelope.invocation,
        })),
        "unregisterfunction" => Ok(Inbound::UnregisterFunction(required(envelope.id, "id")?)),
        "registertriggertype" => Ok(Inbound::RegisterTriggerType(RegisterTriggerType {
            id: required(envelope.id, "id")?,
            description: envelope.description,
            request_format: envelope.trigger_request_format,
            response_format: envelope.call_request_format,
        })),
        "unregistertriggertype" => Ok(Inbound::UnregisterTriggerType(required(envelope.id, "id")?)),
        "registertrigger" => Ok(Inbound::RegisterTrigger(RegisterTrigger {
            id: required(envelope.id, "id")?,
            trigger_type: required(envelope.trigger_type, "trigger_type")?,
            function_id: required_function(envelope.function_id)?.into_owned(),
            config: envelope.config,
            metadata: envelope.metadata,
        })),
        "unregistertrigger" => Ok(Inbound::UnregisterTrigger(required(envelope.id, "id")?)),
        "triggerregistrationresult" => {
            Ok(Inbound::TriggerRegistrationResult(required(envelope.id, "id")?, envelope.error))
        }
        "reattach" => Ok(Inbound::Reattach {
            previous: required(envelope.previous_worker_id, "previous_worker_id")?,
            token: envelope.reattach_token,
        }),
        "observe" => Ok(Inbound::Observe(Observe {
            id: required(envelope.id, "id")?,
            source: envelope.source.ok_or(DecodeError::Missing("source"))?,
            target: envelope.target.ok_or(DecodeError::Missing("target"))?,
            metadata: envelope.metadata,
            max_fires: envelope.max_fires,
            max_in_flight: envelope.max_in_flight,
            expires_in_ms: envelope.expires_in_ms,
        })),
        "unobserve" => Ok(Inbound::Unobserve(required(envelope.id, "id")?)),
        "ping" => Ok(Inbound::Ping),
        // The function owners are not notified of observers, so they have nothing to report.
        "pong" | "registerservice" | "observerack" | "invocationsobserved" | "localinvocationstats" => {
            Ok(Inbound::Nothing)
        }
        _ => Err(DecodeError::Type(envelope.kind.into_owned())),
    }
}

fn invoke(envelope: Envelope<'_>) -> Result<Inbound<'_>, DecodeError> {
    let action = match envelope.action {
        None => Action::Call,
        Some(action) if action.kind == "void" => Action::Void,
        Some(action) if action.kind == "enqueue" => {
            Action::Enqueue { queue: action.queue.ok_or(DecodeError::Missing("queue"))? }
        }
        Some(action) => return Err(DecodeError::Action(action.kind)),
    };
    let id = match envelope.invocation_id {
        Some(Text(text)) => Some((parse_id(&text)?, text)),
        None => None,
    };
    Ok(Inbound::Invoke(Invoke {
        id,
        function_id: required_function(envelope.function_id)?,
        data: envelope.data.map_or("null", RawValue::get),
        action,
        trace: Trace { parent: envelope.traceparent, baggage: envelope.baggage },
        metadata: envelope.metadata,
        depth: envelope.observe_depth.unwrap_or_default(),
    }))
}

fn outcome(envelope: Envelope<'_>) -> Result<Inbound<'_>, DecodeError> {
    let Text(id) = envelope.invocation_id.ok_or(DecodeError::Missing("invocation_id"))?;
    let outcome = match envelope.error {
        Some(error) => Err(error.get()),
        None => Ok(envelope.result.map(RawValue::get)),
    };
    Ok(Inbound::InvocationResult(parse_id(&id)?, outcome))
}

fn parse_id(text: &str) -> Result<Uuid, DecodeError> {
    Uuid::parse_str(text).map_err(|_| DecodeError::Id(text.to_owned()))
}

fn required(field: Option<String>, name: &'static str) -> Result<String, DecodeError> {
    field.filter(|text| !text.trim().is_empty()).ok_or(DecodeError::Missing(name))
}

fn required_function(field: Option<Text<'_>>) -> Result<Cow<'_, str>, DecodeError> {
    let found = field.filter(|Text(text)| !text.trim().is_empty());
    found.map(|Text(text)| text).ok_or(DecodeError::Missing("function_id"))
}

/// Returns `true` if a binary message is telemetry, which is discarded.
pub(crate) fn holds_telemetry(bytes: &[u8]) -> bool {
    [&b"OTLP"[..], b"MTRC", b"LOGS"].iter().any(|mark| bytes.starts_with(mark))
}
