//! Parses a SKILL.md: splits off the frontmatter and reads its fields.

use serde_json::{Map, Value};

use super::{lines, yaml};
use crate::{Invocation, SkillMetadata};

/// Maximum length of a name, in characters. A longer one is probably a mistake.
const MAX_NAME: usize = 256;

/// A parsed SKILL.md.
#[derive(Debug, Clone, PartialEq)]
pub struct Document<'a> {
    /// The name.
    pub name: String,
    /// Description of what it does and when to use it.
    pub description: String,
    /// Other metadata.
    pub traits: SkillMetadata,
    /// All fields of the frontmatter, including unknown ones.
    pub fields: Map<String, Value>,
    /// The text after the frontmatter.
    pub body: &'a str,
    /// The frontmatter as written, and the line before it.
    head: (&'a str, usize),
}

/// Error of parsing a SKILL.md.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}; {fix}")]
pub struct ParseError {
    /// The line, from 1.
    pub line: usize,
    /// The problem.
    pub reason: String,
    /// Suggested fix.
    pub fix: &'static str,
}

impl ParseError {
    fn new(line: usize, reason: impl Into<String>, fix: &'static str) -> Self {
        Self { line, reason: reason.into(), fix }
    }
}

const OPENING: &str = "start the file with a line `---`, then `name:` and `description:`, then a line `---`";

impl<'a> Document<'a> {
    /// Parses a SKILL.md as leniently as is safe.
    ///
    /// # Errors
    /// Returns an error with the line, the problem, and a fix.
    pub fn read(text: &'a str) -> Result<Self, ParseError> {
        let split = Split::new(text)?;
        let (fields, texts) = match yaml::read(split.head) {
            Ok(read) => from_yaml(read),
            Err(error) => {
                let read = lines::read(split.head);
                if read.is_empty() {
                    return Err(split.yaml_error(error));
                }
                (lines::map(&read), read)
            }
        };
        let fix = "add a line `name:` with the name of the directory";
        let (name, line) = split.required(&texts, "name", fix)?;
        check_name(&name, line)?;
        let fix = "add a line `description:` that says when to use it";
        let (description, _) = split.required(&texts, "description", fix)?;
        let traits = traits(&fields);
        let head = (split.head, split.first_line);
        Ok(Self { name, description, traits, fields, body: split.body, head })
    }

    /// Returns the line of a frontmatter key, or of an entry of the mapping below it. The frontmatter is parsed again,
    /// because loading a skill does not need the lines.
    pub(crate) fn line_of(&self, key: &str, entry: Option<&str>) -> usize {
        let (head, before) = self.head;
        let line = match yaml::read(head) {
            Ok(read) => read.fields.iter().find(|field| field.key == key).map(|field| {
                let inner = field.entries.iter().find(|(known, _)| Some(known.as_str()) == entry);
                inner.map_or(field.line, |(_, line)| *line)
            }),
            Err(_) => lines::read(head).iter().find(|(known, ..)| known == key).map(|(.., line)| *line),
        };
        before + line.unwrap_or(0)
    }
}

fn check_name(name: &str, line: usize) -> Result<(), ParseError> {
    if name.chars().count() > MAX_NAME {
        return Err(ParseError::new(line, "the name is longer than 256 characters", "shorten it"));
    }
    if let Some(why) = crate::path::unusable_name(name) {
        return Err(ParseError::new(line, format!("the name {why}"), "use letters, digits, and hyphens"));
    }
    Ok(())
}

type Texts = Vec<(String, String, usize)>;

fn from_yaml(read: yaml::Yaml) -> (Map<String, Value>, Texts) {
    let mut fields = Map::new();
    let mut texts = Vec::new();
    for yaml::Field { key, value, text, line, .. } in read.fields {
        let written = text.or_else(|| value.as_str().map(str::to_owned));
        if let Some(text) = written.filter(|_| !value.is_null()) {
            texts.push((key.clone(), text, line));
        }
        fields.insert(key, value);
    }
    (fields, texts)
}

/// A file split into frontmatter and body.
struct Split<'a> {
    head: &'a str,
    body: &'a str,
    /// Line of the opening hyphens, from 1.
    first_line: usize,
}

impl<'a> Split<'a> {
    fn new(text: &'a str) -> Result<Self, ParseError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut offset = 0;
        let mut first_line = 1;
        let mut lines = text.split_inclusive('\n');
        loop {
            let Some(line) = lines.next() else {
                return Err(ParseError::new(1, "the file is empty", OPENING));
            };
            offset += line.len();
            match line.trim_end() {
                "" => first_line += 1,
                "---" => break,
                _ => return Err(ParseError::new(first_line, "the frontmatter is missing", OPENING)),
            }
        }
        let start = offset;
        for line in lines {
            if matches!(line.trim_end(), "---" | "...") {
                let body = &text[offset + line.len()..];
                return Ok(Self { head: &text[start..offset], body, first_line });
            }
            offset += line.len();
        }
        Err(ParseError::new(
            first_line,
            "the frontmatter is not closed",
            "add a line `---` below `description:`",
        ))
    }

    /// Returns a text that must not be empty, and its line.
    fn required(&self, texts: &Texts, key: &str, fix: &'static str) -> Result<(String, usize), ParseError> {
        let found = texts.iter().find(|(known, ..)| known == key);
        let line = self.first_line + found.map_or(0, |(.., line)| *line);
        match found.map(|(_, text, _)| text.trim()) {
            None => Err(ParseError::new(line, format!("`{key}` is missing"), fix)),
            Some("") => Err(ParseError::new(line, format!("`{key}` is empty"), fix)),
            Some(text) => Ok((text.to_owned(), line)),
        }
    }

    fn yaml_error(&self, error: yaml::YamlError) -> ParseError {
        match error {
            yaml::YamlError::Syntax { line, what } => ParseError::new(
                self.first_line + line,
                format!("the frontmatter is not YAML: {what}"),
                "write `key: value` lines, with quotes around values that contain `: `",
            ),
            yaml::YamlError::NoMapping => {
                ParseError::new(self.first_line, "the frontmatter has no `key: value` lines", OPENING)
            }
        }
    }
}

fn traits(fields: &Map<String, Value>) -> SkillMetadata {
    let flag = |key: &str, default: bool| match fields.get(key) {
        Some(Value::Bool(flag)) => *flag,
        Some(Value::String(text)) => match text.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" => true,
            "false" | "no" | "off" => false,
            _ => default,
        },
        _ => default,
    };
    let by_model = !flag("disable-model-invocation", false);
    let by_user = flag("user-invocable", true);
    let hint = fields.get("argument-hint");
    SkillMetadata {
        allowed_tools: fields.get("allowed-tools").map(words).unwrap_or_default(),
        requires: fields.get("requires_capabilities").map(words).unwrap_or_default(),
        argument_hint: hint.and_then(hint_text),
        invocation: match (by_model, by_user) {
            (true, true) => Invocation::Anyone,
            (true, false) => Invocation::Model,
            (false, true) => Invocation::User,
            (false, false) => Invocation::Neither,
        },
    }
}

/// Returns the text of an argument hint. Hints are written as `[file] [more]`, which YAML parses as a list.
fn hint_text(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let words: Vec<_> = items.iter().filter_map(Value::as_str).collect();
            format!("[{}]", words.join(", "))
        }
        _ => return None,
    };
    Some(text).filter(|text| !text.trim().is_empty())
}

/// Parses a list in YAML, or separated by commas or spaces. Parentheses keep a word together.
fn words(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Value::String(text) => {
            let mut words = vec![String::new()];
            let mut depth = 0_usize;
            for c in text.trim_matches(['[', ']']).chars() {
                match c {
                    '(' => depth += 1,
                    ')' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                if depth == 0 && (c == ',' || c.is_whitespace()) {
                    words.push(String::new());
                } else if let Some(word) = words.last_mut() {
                    word.push(c);
                }
            }
            let bare = |word: &String| word.trim_matches(['"', '\'']).to_owned();
            words.iter().map(bare).filter(|word| !word.is_empty()).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
