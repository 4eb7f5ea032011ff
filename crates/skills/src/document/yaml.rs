//! Parses the YAML of frontmatter: a single mapping, with the line and the style of each key.
//!
//! Aliases are not expanded, so a small file cannot grow large.

use std::collections::HashSet;
use std::ops::Range;

use granit_parser::{Event, Parser, ScalarStyle, Span, StrInput, StructureStyle};
use serde_json::{Map, Number, Value};

/// Maximum nesting depth of collections.
const MAX_DEPTH: usize = 32;

/// A mapping, in source order.
#[derive(Debug, Default)]
pub(crate) struct Yaml {
    pub(crate) fields: Vec<Field>,
    /// Valid YAML that is not in the plain style accepted by every parser, by line.
    pub(crate) quirks: Vec<(usize, Quirk)>,
    /// Byte ranges of quoted and block scalars, which may contain any characters.
    pub(crate) guarded: Vec<Range<usize>>,
}

/// A key of the mapping.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) key: String,
    pub(crate) value: Value,
    /// A scalar as written, because a name may look like a number.
    pub(crate) text: Option<String>,
    /// Line of the key, from 1.
    pub(crate) line: usize,
    /// Keys of the value with their lines, if it is a mapping.
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
pub(crate) enum YamlError {
    Syntax { line: usize, what: String },
    NoMapping,
}

/// Reads one mapping.
pub(crate) fn read(text: &str) -> Result<Yaml, YamlError> {
    let mut reader =
        Reader { parser: Parser::new_from_str(text), yaml: Yaml::default(), entries: Vec::new() };
    loop {
        match reader.next()? {
            (Event::StreamStart | Event::DocumentStart(..), _) => {}
            (Event::MappingStart(style, anchor, tag), span) => {
                reader.note_style(style == StructureStyle::Flow, anchor, tag.is_some(), &span);
                reader.top()?;
                reader.rest()?;
                return Ok(reader.yaml);
            }
            _ => return Err(YamlError::NoMapping),
        }
    }
}

/// A value, and the text as written if it is a scalar.
type Node = (Value, Option<String>);

struct Reader<'a> {
    parser: Parser<'a, StrInput<'a>>,
    yaml: Yaml,
    /// Keys of the mapping being read as a value, with their lines.
    entries: Vec<(String, usize)>,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Span), YamlError> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(YamlError::Syntax { line: error.marker().line(), what: error.info() }),
            None => Err(YamlError::NoMapping),
        }
    }

    fn quirk(&mut self, span: &Span, quirk: Quirk) {
        self.yaml.quirks.push((span.start.line(), quirk));
    }

    fn note_style(&mut self, flow: bool, anchor: usize, tagged: bool, span: &Span) {
        for (found, quirk) in [(flow, Quirk::FlowStyle), (anchor != 0, Quirk::Anchor), (tagged, Quirk::Tag)] {
            if found {
                self.quirk(span, quirk);
            }
        }
    }

    /// Reads the keys of the outermost mapping.
    fn top(&mut self) -> Result<(), YamlError> {
        let mut seen = HashSet::new();
        while let Some(((_, key), span)) = self.item(0)? {
            let (event, at) = self.next()?;
            self.entries.clear();
            let (value, text) = self.node(event, &at, 0)?;
            let entries = std::mem::take(&mut self.entries);
            let Some(key) = key else { continue };
            if !seen.insert(key.clone()) {
                self.quirk(&span, Quirk::DuplicateKey);
                continue;
            }
            self.yaml.fields.push(Field { key, value, text, line: span.start.line(), entries });
        }
        Ok(())
    }

    /// Reads the rest of the stream after the mapping, which should be empty.
    fn rest(&mut self) -> Result<(), YamlError> {
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

    /// Reads the next node of a collection; `None` at its end.
    fn item(&mut self, depth: usize) -> Result<Option<(Node, Span)>, YamlError> {
        let (event, span) = self.next()?;
        if matches!(event, Event::SequenceEnd | Event::MappingEnd) {
            return Ok(None);
        }
        Ok(Some((self.node(event, &span, depth)?, span)))
    }

    fn node(&mut self, event: Event<'a>, span: &Span, depth: usize) -> Result<Node, YamlError> {
        if depth > MAX_DEPTH {
            return Err(YamlError::Syntax { line: span.start.line(), what: "nested too deeply".to_owned() });
        }
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.note_style(false, anchor, tag.is_some(), span);
                let is_plain = style == ScalarStyle::Plain;
                if !is_plain
                    && let (Some(start), Some(end)) = (span.start.byte_offset(), span.end.byte_offset())
                {
                    self.yaml.guarded.push(start..end);
                }
                // The parser reports a missing value as a tilde of zero length.
                let absent = span.start.index() == span.end.index() && is_plain;
                let text = if absent { String::new() } else { text.into_owned() };
                let value = if is_plain { plain(&text) } else { Value::String(text.clone()) };
                // In YAML 1.1, which strict parsers use, a lone equals sign is a special value and not text.
                let is_special = is_plain && text == "=";
                Ok((value, (!is_special).then_some(text)))
            }
            Event::SequenceStart(style, anchor, tag) => {
                self.note_style(style == StructureStyle::Flow, anchor, tag.is_some(), span);
                Ok((self.sequence(depth)?, None))
            }
            Event::MappingStart(style, anchor, tag) => {
                self.note_style(style == StructureStyle::Flow, anchor, tag.is_some(), span);
                Ok((self.mapping(depth)?, None))
            }
            _ => {
                self.quirk(span, Quirk::Anchor);
                Ok((Value::Null, None))
            }
        }
    }

    fn sequence(&mut self, depth: usize) -> Result<Value, YamlError> {
        let mut items = Vec::new();
        while let Some(((value, _), _)) = self.item(depth + 1)? {
            items.push(value);
        }
        Ok(Value::Array(items))
    }

    fn mapping(&mut self, depth: usize) -> Result<Value, YamlError> {
        let mut map = Map::new();
        while let Some(((_, key), span)) = self.item(depth + 1)? {
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
        Ok(Value::Object(map))
    }
}

/// Returns the value of an unquoted scalar.
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
