//! Conversion of `tracing` spans into spans of a trace.
//!
//! A span describes itself with fields. Those named `otel.…` are about the span itself: its name, its kind, and its
//! place in a trace whose ids come from outside. All others become attributes.

use std::fmt::Debug;
use std::time::{SystemTime, UNIX_EPOCH};

use meerkat_core::Redactor;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;
use uuid::Uuid;

use super::export::Queue;
use super::proto::{Kind, Span, Value};

/// Collects spans and queues those that have ended.
pub(super) struct SpanLayer {
    queue: Queue,
    redactor: Redactor,
}

/// A span that has not ended.
struct Open {
    span: Span,
    is_sampled: bool,
}

impl SpanLayer {
    pub(super) fn new(queue: Queue, redactor: Redactor) -> Self {
        Self { queue, redactor }
    }

    fn redact(&self, span: &mut Span) {
        for (_, value) in &mut span.attributes {
            match value {
                Value::Text(text) => self.redactor.redact_text(text),
                Value::Texts(texts) => texts.iter_mut().for_each(|text| self.redactor.redact_text(text)),
                Value::Bool(_) | Value::Int(_) | Value::Double(_) => {}
            }
        }
        self.redactor.redact_text(&mut span.name);
        if let Some(failure) = &mut span.failure {
            self.redactor.redact_text(failure);
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for SpanLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut open = Open::new(attributes.metadata());
        if let Some(parent) = span.parent()
            && let Some(above) = parent.extensions().get::<Open>()
        {
            open.span.trace_id = above.span.trace_id;
            open.span.parent_id = above.span.span_id;
            open.span.state.clone_from(&above.span.state);
            open.is_sampled = above.is_sampled;
        }
        attributes.record(&mut open);
        span.extensions_mut().insert(open);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(open) = span.extensions_mut().get_mut::<Open>()
        {
            values.record(open);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let Some(mut open) = span.extensions_mut().remove::<Open>() else { return };
        if open.is_sampled {
            open.span.ended = now().max(open.span.started);
            self.redact(&mut open.span);
            self.queue.put(open.span);
        }
    }
}

impl Open {
    fn new(about: &Metadata<'_>) -> Self {
        let span = Span {
            trace_id: Uuid::new_v4().as_u128(),
            span_id: Uuid::new_v4().as_u64_pair().1,
            parent_id: 0,
            state: String::new(),
            name: about.name().to_owned(),
            kind: Kind::default(),
            started: now(),
            ended: 0,
            attributes: Vec::new(),
            failure: None,
        };
        Self { span, is_sampled: true }
    }

    fn put(&mut self, name: &str, value: Value) {
        match self.span.attributes.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = value,
            None => self.span.attributes.push((name.to_owned(), value)),
        }
    }
}

impl Visit for Open {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "otel.name" => self.span.name = value.to_owned(),
            "otel.state" => self.span.state = value.to_owned(),
            "otel.failure" => self.span.failure = Some(value.to_owned()),
            "otel.kind" => {
                self.span.kind = match value {
                    "client" => Kind::Client,
                    "server" => Kind::Server,
                    _ => Kind::Internal,
                };
            }
            // The conventions require a list, and fields cannot be lists.
            "gen_ai.response.finish_reasons" => {
                self.put(field.name(), Value::Texts(vec![value.to_owned()]));
            }
            name => self.put(name, Value::Text(value.to_owned())),
        }
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        match field.name() {
            "otel.trace_id" => self.span.trace_id = value,
            name => self.put(name, Value::Text(value.to_string())),
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "otel.span_id" => self.span.span_id = value,
            "otel.parent_id" => self.span.parent_id = value,
            name => self.put(name, Value::Int(i64::try_from(value).unwrap_or(i64::MAX))),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field.name(), Value::Int(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field.name(), Value::Double(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        match field.name() {
            "otel.sampled" => self.is_sampled = value,
            name => self.put(name, Value::Bool(value)),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field.name(), Value::Text(format!("{value:?}")));
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use meerkat_core::Redactor;
    use tracing::field::Empty;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::super::export::Queue;
    use super::super::proto::{Kind, Span, Value};
    use super::SpanLayer;

    fn spans(body: impl FnOnce()) -> Vec<Span> {
        let (queue, mut ended) = Queue::bounded(16);
        let redactor = Redactor::default();
        redactor.add("swordfish-1");
        let layer = SpanLayer::new(queue, redactor);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), body);
        std::iter::from_fn(|| ended.try_recv().ok()).collect()
    }

    #[test]
    fn spans_keep_tree_and_ids_but_no_secrets() {
        let ended = spans(|| {
            let run = tracing::info_span!(
                "run",
                otel.trace_id = 7_u128,
                otel.span_id = 8_u64,
                otel.parent_id = 9_u64,
                otel.state = "v=1"
            );
            run.in_scope(|| {
                let chat = tracing::info_span!(
                    "chat",
                    otel.name = "chat swordfish-1",
                    otel.kind = "client",
                    otel.failure = Empty,
                    tokens = 3_u64,
                    gen_ai.response.finish_reasons = Empty,
                    late = Empty
                );
                chat.record("late", "a swordfish-1").record("gen_ai.response.finish_reasons", "stop");
                chat.record("otel.failure", "swordfish-1 broke");
            });
        });
        let [chat, run] = &ended[..] else { panic!("{ended:?}") };
        let expected = Span {
            trace_id: 7,
            span_id: chat.span_id,
            parent_id: 8,
            state: "v=1".to_owned(),
            name: "chat ***".to_owned(),
            kind: Kind::Client,
            started: chat.started,
            ended: chat.ended,
            attributes: vec![
                ("tokens".to_owned(), Value::Int(3)),
                ("late".to_owned(), Value::Text("a ***".to_owned())),
                ("gen_ai.response.finish_reasons".to_owned(), Value::Texts(vec!["stop".to_owned()])),
            ],
            failure: Some("*** broke".to_owned()),
        };
        assert_eq!(*chat, expected);
        assert_eq!((run.trace_id, run.span_id, run.parent_id, run.name.as_str()), (7, 8, 9, "run"));
        assert!(run.started <= chat.started && chat.ended <= run.ended);
    }

    #[test]
    fn unsampled_trace_is_not_sent() {
        let ended = spans(|| {
            let run = tracing::info_span!("run", otel.sampled = false);
            run.in_scope(|| drop(tracing::info_span!("chat")));
        });
        assert_eq!(ended, []);
    }
}
