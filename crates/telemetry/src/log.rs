//! The log, with one line for each event.

use std::fmt::{self, Debug, Display, Formatter, Write as _};
use std::str::FromStr;

use jiff::Timestamp;
use meerkat_core::Redactor;
use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use crate::LineSink;

/// Field of a span with the id of its session.
const SESSION: &str = "gen_ai.conversation.id";

/// Form of log lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Text, for people.
    #[default]
    Text,
    /// A JSON object, for log collectors.
    Json,
}

/// An unknown log format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownFormat(String);

impl Display for UnknownFormat {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "unknown log format `{}`; use `text` or `json`", self.0)
    }
}

impl std::error::Error for UnknownFormat {}

impl FromStr for LogFormat {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            other => Err(UnknownFormat(other.to_owned())),
        }
    }
}

/// Formats events as lines.
pub(crate) struct LogLayer {
    sink: LineSink,
    format: LogFormat,
    redactor: Redactor,
}

/// Session that a span belongs to.
struct Session(String);

impl LogLayer {
    pub(crate) fn new(sink: LineSink, format: LogFormat, redactor: Redactor) -> Self {
        Self { sink, format, redactor }
    }

    fn text(&self, metadata: &Metadata<'_>, EventFields { message, fields }: &EventFields) -> String {
        let mut line = format!("{} {:>5} {}: ", now(), metadata.level(), metadata.target());
        line.push_str(message.trim_end());
        for (name, value) in fields {
            let _ = match value {
                FieldValue::Text(text) => write!(line, " {name}={text:?}"),
                FieldValue::Plain(text) => write!(line, " {name}={text}"),
                FieldValue::Number(number) => write!(line, " {name}={number}"),
            };
        }
        // Keep each event on one line, whatever it contains.
        self.redactor.redact(&line).replace('\n', "\\n")
    }

    fn json(&self, metadata: &Metadata<'_>, EventFields { message, fields }: EventFields) -> String {
        let redacted = |text: &str| Value::from(self.redactor.redact(text).into_owned());
        let value = |value| match value {
            FieldValue::Text(text) | FieldValue::Plain(text) => redacted(&text),
            FieldValue::Number(number) => number,
        };
        let fields: Map<_, _> =
            fields.into_iter().map(|(name, found)| (name.to_owned(), value(found))).collect();
        json_line(*metadata.level(), metadata.target(), &self.redactor.redact(message.trim_end()), &fields)
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
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(Session(id)) = span.extensions().get::<Session>() {
                fields.fields.push(("session", FieldValue::Plain(id.clone())));
            }
        }
        let line = match self.format {
            LogFormat::Text => self.text(event.metadata(), &fields),
            LogFormat::Json => self.json(event.metadata(), fields),
        };
        (self.sink)(&line);
    }
}

/// Formats a message that is not an event, such as the greeting of a server, as a line of a JSON log. Secrets must be
/// masked already.
#[must_use]
pub fn json_message(level: Level, target: &str, message: &str) -> String {
    json_line(level, target, message, &Map::new())
}

fn json_line(level: Level, target: &str, message: &str, fields: &Map<String, Value>) -> String {
    json!({
        "time": now(),
        "level": level.as_str().to_ascii_lowercase(),
        "target": target,
        "message": message,
        "fields": fields,
    })
    .to_string()
}

fn store_session<S: Subscriber + for<'a> LookupSpan<'a>>(
    context: &Context<'_, S>,
    id: &Id,
    record: impl FnOnce(&mut EventFields),
) {
    let mut fields = EventFields::default();
    record(&mut fields);
    let session = fields.fields.into_iter().find(|(name, _)| *name == SESSION);
    if let (Some((_, FieldValue::Text(id) | FieldValue::Plain(id))), Some(span)) = (session, context.span(id))
    {
        span.extensions_mut().replace(Session(id));
    }
}

fn now() -> String {
    format!("{:.3}", Timestamp::now())
}

/// Message and fields of an event.
#[derive(Default)]
struct EventFields {
    message: String,
    fields: Vec<(&'static str, FieldValue)>,
}

/// Value of a field.
enum FieldValue {
    /// A string, quoted in text.
    Text(String),
    /// The form of another value.
    Plain(String),
    /// A number or a boolean.
    Number(Value),
}

impl Visit for EventFields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message = value.to_owned(),
            name => self.fields.push((name, FieldValue::Text(value.to_owned()))),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => self.fields.push((name, FieldValue::Plain(format!("{value:?}")))),
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.fields.push((field.name(), FieldValue::Number(value.into())));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.fields.push((field.name(), FieldValue::Number(value.into())));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.fields.push((field.name(), FieldValue::Number(value.into())));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use meerkat_core::Redactor;
    use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};

    use serde_json::{Value, json};

    use super::{LogFormat, LogLayer};
    use crate::LogFilter;

    /// Returns the lines of a few events in a form.
    fn log(format: LogFormat) -> Vec<String> {
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let captured = Arc::clone(&lines);
        let redactor = Redactor::default();
        redactor.add("swordfish-1");
        let sink = Arc::new(move |line: &str| captured.lock().unwrap().push(line.to_owned()));
        let filter: LogFilter = "debug".parse().unwrap();
        let layer = LogLayer::new(sink, format, redactor).with_filter(filter.targets());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let span = tracing::info_span!("invoke_agent", gen_ai.conversation.id = "S1");
            let _in = span.enter();
            tracing::debug!(server = "files", tries = 2, "output\n{}", "swordfish-1");
            tracing::trace!("not wanted");
            tracing::error!(target: "hyper", "not ours");
        });
        let lines = lines.lock().unwrap();
        lines.clone()
    }

    #[test]
    fn event_is_logged_on_one_line_without_secrets() {
        let lines: Vec<_> = log(LogFormat::Text).iter().map(|line| line[25..].to_owned()).collect();
        assert_eq!(
            lines,
            ["DEBUG meerkat_telemetry::log::tests: output\\n*** server=\"files\" tries=2 session=S1"]
        );
    }

    #[test]
    fn json_log_has_one_object_per_event() {
        let lines = log(LogFormat::Json);
        let [line] = lines.as_slice() else { panic!("{lines:?}") };
        let mut event: Value = serde_json::from_str(line).unwrap();
        let time = event["time"].take();
        assert!(time.as_str().unwrap().parse::<jiff::Timestamp>().is_ok(), "{time}");
        let expected = json!({
            "time": null,
            "level": "debug",
            "target": "meerkat_telemetry::log::tests",
            "message": "output\n***",
            "fields": { "server": "files", "tries": 2, "session": "S1" },
        });
        assert_eq!(event, expected);
    }
}
