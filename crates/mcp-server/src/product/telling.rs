//! What is told of a run while it goes on: events, progress, the log.

use std::sync::Arc;

use meerkat::ops::Operation;
use meerkat::{EventEnvelope, EventSink, progress};
use serde_json::Value;

use super::Log;
use super::stream::EventStream;
use super::tools::takes;
use crate::layer::{Request, Ticker};

/// Says whether a switch is on in the arguments.
pub(super) fn asked(arguments: &Value, key: &str) -> bool {
    arguments.get(key) == Some(&Value::Bool(true))
}

/// Writes an event to the log.
pub(super) fn write_log(log: &Log, event: &EventEnvelope) {
    let payload = serde_json::to_string(&event.payload).unwrap_or_default();
    log(&format!("{} #{} {payload}", event.source_id, event.seq));
}

/// Tells what the caller asked for.
pub(super) struct Telling {
    stream: Option<EventStream>,
    ticker: Option<Arc<Ticker>>,
    log: Option<Log>,
}

impl Telling {
    /// Whoever asks for what the operation does not offer is not told.
    pub(super) fn new(operation: &Operation, arguments: &Value, request: &Request, log: &Log) -> Self {
        let asked = |key: &str| asked(arguments, key) && takes(operation.name, key);
        Self {
            stream: asked("stream").then(|| EventStream::start(request.clone())),
            ticker: request.progress().ticker().map(Arc::new),
            log: asked("verbose").then(|| Arc::clone(log)),
        }
    }

    /// Makes what the run's events go to, if anybody wants them.
    pub(super) fn sink(&self) -> Option<EventSink> {
        let (stream, ticker, log) =
            (self.stream.as_ref().map(EventStream::sink), self.ticker.clone(), self.log.clone());
        if stream.is_none() && ticker.is_none() && log.is_none() {
            return None;
        }
        Some(Arc::new(move |event: EventEnvelope| {
            if let Some(log) = &log {
                write_log(log, &event);
            }
            if let Some(ticker) = &ticker
                && let Some(words) = progress(&event.payload)
            {
                ticker.say(words);
            }
            if let Some(stream) = &stream {
                stream(event);
            }
        }))
    }

    /// Waits until all is told; every sink must be gone by then.
    pub(super) async fn finish(self) {
        if let Some(stream) = self.stream {
            stream.finish().await;
        }
        if let Some(ticker) = self.ticker {
            ticker.finish().await;
        }
    }
}
