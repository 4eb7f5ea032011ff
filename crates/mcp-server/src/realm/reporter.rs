//! Reports about an active run: events, progress, and the log.

use std::sync::Arc;

use meerkat::operations::AnyOperation;
use meerkat::{EventEnvelope, EventSink, describe_progress};
use serde_json::Value;

use super::stream::EventStream;
use super::tools::accepts_argument;
use crate::log::Log;
use crate::protocol::{Request, Ticker};

/// Returns `true` if a flag is set in the arguments.
pub(super) fn is_enabled(arguments: &Value, key: &str) -> bool {
    arguments.get(key) == Some(&Value::Bool(true))
}

/// Writes an event to the log.
pub(super) fn write_log(log: &Log, event: &EventEnvelope) {
    let payload = serde_json::to_string(&event.payload).unwrap_or_default();
    log(&format!("{} #{} {payload}", event.source_id, event.seq));
}

/// Reporter of a run, for what the caller requested.
pub(super) struct RunReporter {
    stream: Option<EventStream>,
    ticker: Option<Arc<Ticker>>,
    log: Option<Log>,
}

impl RunReporter {
    /// Creates a reporter. Flags that the operation does not accept are ignored.
    pub(super) fn new(operation: &AnyOperation, arguments: &Value, request: &Request, log: &Log) -> Self {
        let is_requested = |key: &str| is_enabled(arguments, key) && accepts_argument(operation.name, key);
        Self {
            stream: is_requested("stream").then(|| EventStream::start(request.clone())),
            ticker: request.progress().ticker().map(Arc::new),
            log: is_requested("verbose").then(|| Arc::clone(log)),
        }
    }

    /// Returns the sink for the run's events, or `None` if the caller requested no reports.
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
                && let Some(message) = describe_progress(&event.payload)
            {
                ticker.set_message(message);
            }
            if let Some(stream) = &stream {
                stream(event);
            }
        }))
    }

    /// Waits until everything is sent; all sinks must be dropped before.
    pub(super) async fn finish(self) {
        if let Some(stream) = self.stream {
            stream.finish().await;
        }
        if let Some(ticker) = self.ticker {
            ticker.finish().await;
        }
    }
}
