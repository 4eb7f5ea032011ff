//! YAML as the head of a SKILL.md uses it: one mapping, with the place and the style of each key.
//!
//! Aliases are not followed, so a small file cannot grow large.

use std::collections::HashSet;
use std::ops::Range;

use granit_parser::{Event, Parser, ScalarStyle, Span, StrInput, StructureStyle};
use serde_json::{Map, Number, Value};

/// How deep collections may be inside each other.
const MAX_DEPTH: usize = 32;

/// A mapping, in the order of its author.
#[derive(Debug, Default)]
pub(crate) struct Yaml {
    pub(crate) fields: Vec<Field>,
    /// What is YAML, but not in the plain style that every reader takes.
    pub(crate) quirks: Vec<(usize, Quirk)>,
    /// Where quoted and block scalars are, in bytes; anything may stand in them.
    pub(crate) guarded: Vec<Range<usize>>,
}

/// A key of the mapping.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) key: String,
    pub(crate) value: Value,
    /// A scalar as it is written; a number may be a name.
    pub(crate) text: Option<String>,
    /// The line of the key, from 1.
    pub(crate) line: usize,
    /// The keys of the value, if it is a mapping, and their lines.
    pub(crate) entries: Vec<(String, usize)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quirk {
    FlowStyle,
    Anchor,
    Tag,
    DuplicateKey,
    OtherDocument,
    MergeKey,
}

#[derive(Debug)]
pub(crate) enum Refusal {
    Syntax { line: usize, what: String },
    NoMapping,
}

/// Reads one mapping.
pub(crate) fn read(text: &str) -> Result<Yaml, Refusal> {
    let mut reader =
        Reader { parser: Parser::new_from_str(text), yaml: Yaml::default(), entries: Vec::new() };
    loop {
        match reader.next()? {
            (Event::StreamStart | Event::DocumentStart(..), _) => {}
            (Event::MappingStart(style, anchor, tag), span) => {
                reader.look(style == StructureStyle::Flow, anchor, tag.is_some(), &span);
                reader.top()?;
                reader.rest()?;
                return Ok(reader.yaml);
            }
            _ => return Err(Refusal::NoMapping),
        }
    }
}

struct Reader<'a> {
    parser: Parser<'a, StrInput<'a>>,
    yaml: Yaml,
    /// The keys of the mapping that is the value being read, and their lines.
    entries: Vec<(String, usize)>,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Span), Refusal> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(Refusal::Syntax { line: error.marker().line(), what: error.info() }),
            None => Err(Refusal::NoMapping),
        }
    }

    fn quirk(&mut self, span: &Span, quirk: Quirk) {
        self.yaml.quirks.push((span.start.line(), quirk));
    }

    fn look(&mut self, flow: bool, anchor: usize, tagged: bool, span: &Span) {
        for (found, quirk) in [(flow, Quirk::FlowStyle), (anchor != 0, Quirk::Anchor), (tagged, Quirk::Tag)] {
            if found {
                self.quirk(span, quirk);
            }
        }
    }

    /// Reads the keys of the outermost mapping.
    fn top(&mut self) -> Result<(), Refusal> {
        let mut seen = HashSet::new();
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                return Ok(());
            }
            let line = span.start.line();
            let (_, key) = self.node(event, &span, 0)?;
            let (event, at) = self.next()?;
            self.entries.clear();
            let (value, text) = self.node(event, &at, 0)?;
            let entries = std::mem::take(&mut self.entries);
            let Some(key) = key else { continue };
            if !seen.insert(key.clone()) {
                self.quirk(&span, Quirk::DuplicateKey);
                continue;
            }
            self.yaml.fields.push(Field { key, value, text, line, entries });
        }
    }

    /// Reads what follows the mapping, which should be nothing.
    fn rest(&mut self) -> Result<(), Refusal> {
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => return Ok(()),
                (Event::DocumentEnd, _) => {}
                (_, span) => {
                    self.quirk(&span, Quirk::OtherDocument);
                    return Ok(());
                }
            }
        }
    }

    /// Reads one node; a scalar also comes back as it is written.
    fn node(
        &mut self,
        event: Event<'a>,
        span: &Span,
        depth: usize,
    ) -> Result<(Value, Option<String>), Refusal> {
        if depth > MAX_DEPTH {
            return Err(Refusal::Syntax { line: span.start.line(), what: "nested too deeply".to_owned() });
        }
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.look(false, anchor, tag.is_some(), span);
                if style != ScalarStyle::Plain
                    && let (Some(start), Some(end)) = (span.start.byte_offset(), span.end.byte_offset())
                {
                    self.yaml.guarded.push(start..end);
                }
                // A value that is not there comes as a tilde of no length.
                let absent = span.start.index() == span.end.index() && style == ScalarStyle::Plain;
                let text = if absent { String::new() } else { text.into_owned() };
                let value =
                    if style == ScalarStyle::Plain { plain(&text) } else { Value::String(text.clone()) };
                // A lone equals sign is not a text but a sign of its own in older YAML, which strict readers speak.
                let is_sign = style == ScalarStyle::Plain && text == "=";
                Ok((value, (!is_sign).then_some(text)))
            }
            Event::SequenceStart(style, anchor, tag) => {
                self.look(style == StructureStyle::Flow, anchor, tag.is_some(), span);
                Ok((self.sequence(depth)?, None))
            }
            Event::MappingStart(style, anchor, tag) => {
                self.look(style == StructureStyle::Flow, anchor, tag.is_some(), span);
                Ok((self.mapping(depth)?, None))
            }
            _ => {
                self.quirk(span, Quirk::Anchor);
                Ok((Value::Null, None))
            }
        }
    }

    fn sequence(&mut self, depth: usize) -> Result<Value, Refusal> {
        let mut items = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::SequenceEnd) {
                return Ok(Value::Array(items));
            }
            items.push(self.node(event, &span, depth + 1)?.0);
        }
    }

    fn mapping(&mut self, depth: usize) -> Result<Value, Refusal> {
        let mut map = Map::new();
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                return Ok(Value::Object(map));
            }
            let (_, key) = self.node(event, &span, depth + 1)?;
            let (event, at) = self.next()?;
            let (value, _) = self.node(event, &at, depth + 1)?;
            let Some(key) = key else { continue };
            if key == "<<" && !value.is_object() {
                self.quirk(&span, Quirk::MergeKey);
            }
            if map.contains_key(&key) {
                self.quirk(&span, Quirk::DuplicateKey);
            } else {
                if depth == 0 {
                    self.entries.push((key.clone(), span.start.line()));
                }
                map.insert(key, value);
            }
        }
    }
}

/// Says what an unquoted scalar is.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    let numeric = text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.'));
    let number = if numeric { number(text) } else { None };
    number.map_or_else(|| Value::String(text.to_owned()), Value::Number)
}

fn number(text: &str) -> Option<Number> {
    if let Ok(number) = text.parse::<i64>() {
        return Some(number.into());
    }
    let digits = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | 'e' | 'E');
    if !text.chars().all(digits) {
        return None;
    }
    text.parse().ok().and_then(Number::from_f64)
}
