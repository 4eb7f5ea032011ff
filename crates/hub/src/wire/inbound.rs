//! Reading a message of a worker.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::observe::{Observe, Source, Target};

/// What a worker can say. Everything else is not understood, and passed over.
#[derive(Debug)]
pub(crate) enum Inbound<'a> {
    RegisterFunction(RegisterFunction<'a>),
    UnregisterFunction {
        id: String,
    },
    RegisterTriggerType {
        id: String,
        formats: Formats<'a>,
        description: Option<String>,
    },
    UnregisterTriggerType {
        id: String,
    },
    RegisterTrigger(RegisterTrigger<'a>),
    UnregisterTrigger {
        id: String,
    },
    TriggerRegistrationResult {
        id: String,
        error: Option<&'a RawValue>,
    },
    Invoke(Invoke<'a>),
    InvocationResult(Outcome<'a>),
    Observe(Observe<'a>),
    Unobserve {
        id: String,
    },
    Reattach {
        previous: String,
        token: Option<String>,
    },
    Ping,
    /// Messages that need no answer and change nothing.
    Nothing,
}

#[derive(Debug)]
pub(crate) struct RegisterFunction<'a> {
    pub(crate) id: String,
    pub(crate) description: Option<String>,
    pub(crate) formats: Formats<'a>,
    pub(crate) metadata: Option<&'a RawValue>,
    pub(crate) invocation: Option<&'a RawValue>,
}

/// The two schemas that come with a function or a trigger type.
#[derive(Debug)]
pub(crate) struct Formats<'a> {
    pub(crate) request: Option<&'a RawValue>,
    pub(crate) response: Option<&'a RawValue>,
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
    /// As the caller wrote it, because the answer repeats it.
    pub(crate) id: Option<(Uuid, Cow<'a, str>)>,
    pub(crate) function_id: Cow<'a, str>,
    pub(crate) data: &'a str,
    pub(crate) action: Action,
    pub(crate) trace: Trace,
    pub(crate) metadata: Option<&'a RawValue>,
    /// How many observers led to the call.
    pub(crate) depth: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    Call,
    Void,
    Enqueue { queue: String },
}

/// What links calls to each other in traces; it is only passed on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trace {
    pub(crate) parent: Option<String>,
    pub(crate) baggage: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Outcome<'a> {
    pub(crate) id: Uuid,
    pub(crate) result: Option<&'a RawValue>,
    pub(crate) error: Option<&'a RawValue>,
}

/// Why a message is passed over.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotUnderstood {
    #[error("it is not a message: {0}")]
    Json(#[from] serde_json::Error),
    #[error("its type `{0}` is not known")]
    Type(String),
    #[error("its `{0}` is missing or blank")]
    Missing(&'static str),
    #[error("its invocation id `{0}` is not a UUID")]
    Id(String),
    #[error("its action `{0}` is not known")]
    Action(String),
}

/// All fields of all messages, so that a message is read once, whatever it turns out to be.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    id: Option<String>,
    #[serde(borrow)]
    function_id: Option<Text<'a>>,
    #[serde(borrow)]
    invocation_id: Option<Text<'a>>,
    trigger_type: Option<String>,
    description: Option<String>,
    #[serde(borrow, default, deserialize_with = "verbatim")]
    data: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "verbatim")]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    config: Option<&'a RawValue>,
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    request_format: Option<&'a RawValue>,
    #[serde(borrow)]
    args_format: Option<&'a RawValue>,
    #[serde(borrow)]
    response_format: Option<&'a RawValue>,
    #[serde(borrow)]
    trigger_request_format: Option<&'a RawValue>,
    #[serde(borrow)]
    call_request_format: Option<&'a RawValue>,
    #[serde(borrow)]
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

/// A text that is borrowed where it has no escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
struct ActionField {
    #[serde(rename = "type")]
    kind: String,
    queue: Option<String>,
}

/// A value that is there, `null` included.
fn verbatim<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Reads one message.
pub(crate) fn decode(text: &str) -> Result<Inbound<'_>, NotUnderstood> {
    if text.trim_start().is_empty() {
        return Ok(Inbound::Nothing);
    }
    let envelope: Envelope<'_> = serde_json::from_str(text)?;
    match &*envelope.kind {
        "invokefunction" => invoke(envelope),
        "invocationresult" => outcome(envelope),
        "registerfunction" => Ok(Inbound::RegisterFunction(RegisterFunction {
            id: named(envelope.id, "id")?,
            description: envelope.description,
            formats: Formats {
                request: envelope.request_format.or(envelope.args_format),
                response: envelope.response_format,
            },
            metadata: envelope.metadata,
            invocation: envelope.invocation,
        })),
        "unregisterfunction" => Ok(Inbound::UnregisterFunction { id: named(envelope.id, "id")? }),
        "registertriggertype" => Ok(Inbound::RegisterTriggerType {
            id: named(envelope.id, "id")?,
            description: envelope.description,
            formats: Formats {
                request: envelope.trigger_request_format,
                response: envelope.call_request_format,
            },
        }),
        "unregistertriggertype" => Ok(Inbound::UnregisterTriggerType { id: named(envelope.id, "id")? }),
        "registertrigger" => Ok(Inbound::RegisterTrigger(RegisterTrigger {
            id: named(envelope.id, "id")?,
            trigger_type: named(envelope.trigger_type, "trigger_type")?,
            function_id: called(envelope.function_id)?.into_owned(),
            config: envelope.config,
            metadata: envelope.metadata,
        })),
        "unregistertrigger" => Ok(Inbound::UnregisterTrigger { id: named(envelope.id, "id")? }),
        "triggerregistrationresult" => {
            Ok(Inbound::TriggerRegistrationResult { id: named(envelope.id, "id")?, error: envelope.error })
        }
        "reattach" => Ok(Inbound::Reattach {
            previous: named(envelope.previous_worker_id, "previous_worker_id")?,
            token: envelope.reattach_token,
        }),
        "observe" => Ok(Inbound::Observe(Observe {
            id: named(envelope.id, "id")?,
            source: envelope.source.ok_or(NotUnderstood::Missing("source"))?,
            target: envelope.target.ok_or(NotUnderstood::Missing("target"))?,
            metadata: envelope.metadata,
            max_fires: envelope.max_fires,
            max_in_flight: envelope.max_in_flight,
            expires_in_ms: envelope.expires_in_ms,
        })),
        "unobserve" => Ok(Inbound::Unobserve { id: named(envelope.id, "id")? }),
        "ping" => Ok(Inbound::Ping),
        // Observers are not told to those who have the functions, who then have nothing to report.
        "pong" | "registerservice" | "observerack" | "invocationsobserved" | "localinvocationstats" => {
            Ok(Inbound::Nothing)
        }
        _ => Err(NotUnderstood::Type(envelope.kind.into_owned())),
    }
}

fn invoke(envelope: Envelope<'_>) -> Result<Inbound<'_>, NotUnderstood> {
    let action = match envelope.action {
        None => Action::Call,
        Some(action) if action.kind == "void" => Action::Void,
        Some(action) if action.kind == "enqueue" => {
            Action::Enqueue { queue: action.queue.ok_or(NotUnderstood::Missing("queue"))? }
        }
        Some(action) => return Err(NotUnderstood::Action(action.kind)),
    };
    let id = match envelope.invocation_id {
        Some(Text(text)) => Some((identified(&text)?, text)),
        None => None,
    };
    Ok(Inbound::Invoke(Invoke {
        id,
        function_id: called(envelope.function_id)?,
        data: envelope.data.map_or("null", RawValue::get),
        action,
        trace: Trace { parent: envelope.traceparent, baggage: envelope.baggage },
        metadata: envelope.metadata,
        depth: envelope.observe_depth.unwrap_or_default(),
    }))
}

fn outcome(envelope: Envelope<'_>) -> Result<Inbound<'_>, NotUnderstood> {
    let Text(id) = envelope.invocation_id.ok_or(NotUnderstood::Missing("invocation_id"))?;
    Ok(Inbound::InvocationResult(Outcome {
        id: identified(&id)?,
        result: envelope.result,
        error: envelope.error,
    }))
}

fn identified(text: &str) -> Result<Uuid, NotUnderstood> {
    Uuid::parse_str(text).map_err(|_| NotUnderstood::Id(text.to_owned()))
}

fn named(field: Option<String>, name: &'static str) -> Result<String, NotUnderstood> {
    field.filter(|text| !text.trim().is_empty()).ok_or(NotUnderstood::Missing(name))
}

fn called(field: Option<Text<'_>>) -> Result<Cow<'_, str>, NotUnderstood> {
    let found = field.filter(|Text(text)| !text.trim().is_empty());
    found.map(|Text(text)| text).ok_or(NotUnderstood::Missing("function_id"))
}

/// Whether a binary message is telemetry, which nobody here reads.
pub(crate) fn holds_telemetry(bytes: &[u8]) -> bool {
    [&b"OTLP"[..], b"MTRC", b"LOGS"].iter().any(|mark| bytes.starts_with(mark))
}
