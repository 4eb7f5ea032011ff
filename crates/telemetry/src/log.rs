//! The log, with one line for each event.

use std::fmt::{Debug, Write as _};

use jiff::Timestamp;
use meerkat_core::Redactor;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use crate::LineSink;

/// Field of a span with the id of its session.
const SESSION: &str = "gen_ai.conversation.id";

/// Formats events as lines.
pub(crate) struct LogLayer {
    sink: LineSink,
    redactor: Redactor,
}

/// Session that a span belongs to.
struct Session(String);

impl LogLayer {
    pub(crate) fn new(sink: LineSink, redactor: Redactor) -> Self {
        Self { sink, redactor }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for LogLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        store_session(&context, id, |fields| attributes.record(fields));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        store_session(&context, id, |fields| values.record(fields));
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = EventFields::default();
        event.record(&mut fields);
        let mut line = format!("{} {:>5} {}: ", now(), event.metadata().level(), event.metadata().target());
        line.push_str(fields.message.trim_end());
        for (name, value) in &fields.fields {
            let _ = write!(line, " {name}={value}");
        }
        if let Some(scope) = context.event_scope(event) {
            for span in scope {
                if let Some(Session(id)) = span.extensions().get::<Session>() {
                    let _ = write!(line, " session={id}");
                }
            }
        }
        // Keep each event on one line, whatever it contains.
        let line = self.redactor.redact(&line).replace('\n', "\\n");
        (self.sink)(&line);
    }
}

fn store_session<S: Subscriber + for<'a> LookupSpan<'a>>(
    context: &Context<'_, S>,
    id: &Id,
    record: impl FnOnce(&mut EventFields),
) {
    let mut fields = EventFields::default();
    record(&mut fields);
    let session = fields.fields.into_iter().find(|(name, _)| *name == SESSION);
    if let (Some((_, session)), Some(span)) = (session, context.span(id)) {
        span.extensions_mut().replace(Session(session));
    }
}

fn now() -> String {
    format!("{:.3}", Timestamp::now())
}

/// Message and fields of an event.
#[derive(Default)]
struct EventFields {
    message: String,
    fields: Vec<(&'static str, String)>,
}

impl Visit for EventFields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message = value.to_owned(),
            SESSION => self.fields.push((SESSION, value.to_owned())),
            name => self.fields.push((name, format!("{value:?}"))),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => self.fields.push((name, format!("{value:?}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use meerkat_core::Redactor;
    use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};

    use super::LogLayer;
    use crate::LogFilter;

    #[test]
    fn event_is_logged_on_one_line_without_secrets() {
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let captured = Arc::clone(&lines);
        let redactor = Redactor::default();
        redactor.add("swordfish-1");
        let sink = Arc::new(move |line: &str| captured.lock().unwrap().push(line.to_owned()));
        let filter: LogFilter = "debug".parse().unwrap();
        let layer = LogLayer::new(sink, redactor).with_filter(filter.targets());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let span = tracing::info_span!("invoke_agent", gen_ai.conversation.id = "S1");
            let _in = span.enter();
            tracing::debug!(server = "files", tries = 2, "output\n{}", "swordfish-1");
            tracing::trace!("not wanted");
            tracing::error!(target: "hyper", "not ours");
        });
        let lines: Vec<String> = lines.lock().unwrap().iter().map(|line| line[25..].to_owned()).collect();
        assert_eq!(
            lines,
            ["DEBUG meerkat_telemetry::log::tests: output\\n*** server=\"files\" tries=2 session=S1"]
        );
    }
}
