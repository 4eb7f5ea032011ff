//! OTLP requests: the few messages that a trace needs, encoded as protocol buffers.

use std::collections::BTreeMap;

/// A value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Text(String),
    Bool(bool),
    Int(i64),
    Double(f64),
    Texts(Vec<String>),
}

/// Role of a span in relation to other services.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Kind {
    #[default]
    Internal = 1,
    Server = 2,
    Client = 3,
}

/// An ended span.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Span {
    pub(super) trace_id: u128,
    pub(super) span_id: u64,
    /// 0 for the root of its trace.
    pub(super) parent_id: u64,
    pub(super) state: String,
    pub(super) name: String,
    pub(super) kind: Kind,
    /// Nanoseconds since 1970.
    pub(super) started: u64,
    pub(super) ended: u64,
    pub(super) attributes: Vec<(String, Value)>,
    /// Error description, if the span failed.
    pub(super) failure: Option<String>,
}

/// Version of the semantic conventions that name the attributes.
const SCHEMA: &str = "https://opentelemetry.io/schemas/1.37.0";
const FAILED: u64 = 2;

/// Encodes a request with these spans.
pub(super) fn request(resource: &BTreeMap<String, String>, spans: &[Span]) -> Vec<u8> {
    let pairs = resource.iter().map(|(key, value)| pair(key, &Value::Text(value.clone())));
    let resource = Writer::default().messages(1, pairs);
    let scope = Writer::default().text(1, "meerkat").text(2, env!("CARGO_PKG_VERSION"));
    let scope_spans =
        Writer::default().message(1, &scope).messages(2, spans.iter().map(span)).text(3, SCHEMA);
    let resource_spans = Writer::default().message(1, &resource).message(2, &scope_spans);
    Writer::default().message(1, &resource_spans).0
}

fn span(span: &Span) -> Writer {
    let mut writer =
        Writer::default().bytes(1, &span.trace_id.to_be_bytes()).bytes(2, &span.span_id.to_be_bytes());
    if !span.state.is_empty() {
        writer = writer.text(3, &span.state);
    }
    if span.parent_id != 0 {
        writer = writer.bytes(4, &span.parent_id.to_be_bytes());
    }
    let attributes = span.attributes.iter().map(|(key, value)| pair(key, value));
    let status = |failure: &String| Writer::default().text(2, failure).number(3, FAILED);
    writer
        .text(5, &span.name)
        .number(6, span.kind as u64)
        .fixed(7, span.started)
        .fixed(8, span.ended)
        .messages(9, attributes)
        .messages(15, span.failure.iter().map(status))
}

fn pair(key: &str, value: &Value) -> Writer {
    Writer::default().text(1, key).message(2, &any(value))
}

fn any(value: &Value) -> Writer {
    let writer = Writer::default();
    match value {
        Value::Text(text) => writer.text(1, text),
        Value::Bool(bool) => writer.number(2, u64::from(*bool)),
        Value::Int(number) => writer.number(3, number.cast_unsigned()),
        Value::Double(number) => writer.fixed(4, number.to_bits()),
        Value::Texts(texts) => {
            let values = texts.iter().map(|text| any(&Value::Text(text.clone())));
            writer.message(5, &Writer::default().messages(1, values))
        }
    }
}

/// Encodes the fields of a message.
#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn varint(mut self, mut number: u64) -> Self {
        while number >= 0x80 {
            self.0.push((number & 0x7f) as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
        self
    }

    fn number(self, field: u64, number: u64) -> Self {
        self.varint(field << 3).varint(number)
    }

    fn fixed(self, field: u64, number: u64) -> Self {
        let mut writer = self.varint(field << 3 | 1);
        writer.0.extend(number.to_le_bytes());
        writer
    }

    fn bytes(self, field: u64, bytes: &[u8]) -> Self {
        let mut writer = self.varint(field << 3 | 2).varint(bytes.len() as u64);
        writer.0.extend(bytes);
        writer
    }

    fn text(self, field: u64, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    fn message(self, field: u64, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }

    fn messages(self, field: u64, messages: impl Iterator<Item = Self>) -> Self {
        messages.fold(self, |writer, message| writer.message(field, &message))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Kind, Span, Value, request};

    /// The encoding was checked against another implementation's decoder; this test pins it.
    #[test]
    fn span_encoding_matches_protocol() {
        let span = Span {
            trace_id: 1,
            span_id: 2,
            parent_id: 3,
            state: "v=1".to_owned(),
            name: "chat".to_owned(),
            kind: Kind::Client,
            started: 4,
            ended: 5,
            attributes: vec![
                ("n".to_owned(), Value::Int(300)),
                ("b".to_owned(), Value::Bool(true)),
                ("l".to_owned(), Value::Texts(vec!["x".to_owned()])),
                ("d".to_owned(), Value::Double(1.0)),
            ],
            failure: Some("no".to_owned()),
        };
        let bytes = request(&BTreeMap::new(), &[span]);
        let contains = |part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
        let parts: [&[u8]; 10] = [
            b"\x0a\x10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x12\x08\0\0\0\0\0\0\0\x02",
            b"\x1a\x03v=1",
            b"\x22\x08\0\0\0\0\0\0\0\x03",
            b"\x2a\x04chat\x30\x03",
            b"\x39\x04\0\0\0\0\0\0\0\x41\x05\0\0\0\0\0\0\0",
            b"\x4a\x08\x0a\x01n\x12\x03\x18\xac\x02",
            b"\x4a\x07\x0a\x01b\x12\x02\x10\x01",
            b"\x4a\x0c\x0a\x01l\x12\x07\x2a\x05\x0a\x03\x0a\x01x",
            b"\x4a\x0e\x0a\x01d\x12\x09\x21\0\0\0\0\0\0\xf0\x3f",
            b"\x7a\x06\x12\x02no\x18\x02",
        ];
        assert_eq!(parts.map(contains), [true; 10]);
    }
}
