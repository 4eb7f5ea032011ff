//! Loading of MCP config files: the entries in use, and problems with the others.

use std::collections::HashMap;
use std::ops::Range;

use serde_json::{Map, Value as Json};
use toml_edit::{Document, Item, TableLike, Value};

use super::read::read_server;
use super::{ConfigProblem, FieldError, Scope, ServerConfig};

/// Text of an MCP config file.
#[derive(Debug, Clone)]
pub struct ServerFile {
    /// Scope of the file.
    pub scope: Scope,
    /// Label for messages: the path.
    pub label: String,
    /// Content of the file.
    pub text: String,
}

/// A valid entry, with its variables not yet expanded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourcedServer {
    /// The server.
    pub config: ServerConfig,
    /// Scope of the file that it is from.
    pub scope: Scope,
    /// Label of the file.
    pub file: String,
    /// First line of the entry.
    pub line: usize,
    /// Line of each field.
    lines: HashMap<String, usize>,
}

/// Content of MCP config files.
#[derive(Debug, Clone, Default)]
pub struct LoadedServers {
    /// Servers in use with unique names, those of earlier files first.
    pub servers: Vec<SourcedServer>,
    /// Entries shadowed by one of the same name in an earlier file.
    pub shadowed: Vec<SourcedServer>,
    /// Invalid parts of the files.
    pub problems: Vec<ConfigProblem>,
}

impl SourcedServer {
    /// Expands the variables of the entry.
    ///
    /// # Errors
    ///
    /// Returns an error that names the file, line, and field whose variable is not set.
    pub fn expanded(&self, lookup: &dyn Fn(&str) -> Option<String>) -> Result<ServerConfig, ConfigProblem> {
        self.config.expanded(lookup).map_err(|error| self.problem(error))
    }

    /// Returns the line of a field, or that of the entry if the field is missing.
    #[must_use]
    pub fn line_of(&self, field: &str) -> usize {
        line_in(&self.lines, field).unwrap_or(self.line)
    }

    fn problem(&self, error: FieldError) -> ConfigProblem {
        ConfigProblem {
            file: self.file.clone(),
            line: self.line_of(&error.field),
            server: Some(self.config.name.clone()),
            field: Some(error.field),
            message: error.message,
        }
    }
}

/// Loads MCP config files. A name in an earlier file shadows the same name in a later one, so the project's file comes
/// first.
#[must_use]
pub fn load_servers(files: &[ServerFile]) -> LoadedServers {
    let mut loaded = LoadedServers::default();
    for file in files {
        let known: Vec<_> = loaded.servers.iter().map(|server| server.config.name.clone()).collect();
        for entry in read_file(file) {
            match entry {
                Ok(server) if known.contains(&server.config.name) => loaded.shadowed.push(server),
                Ok(server) => push_unique(&mut loaded, server),
                Err(problem) => loaded.problems.push(problem),
            }
        }
    }
    loaded
}

fn push_unique(loaded: &mut LoadedServers, server: SourcedServer) {
    let first = loaded.servers.iter().find(|other| other.config.name == server.config.name);
    match first.map(|other| other.line) {
        Some(line) => {
            let message =
                format!("`{}` is already used by the server at line {line}; rename one", server.config.name);
            loaded.problems.push(server.problem(FieldError::new("name", message)));
        }
        None => loaded.servers.push(server),
    }
}

fn read_file(file: &ServerFile) -> Vec<Result<SourcedServer, ConfigProblem>> {
    let document = match Document::parse(file.text.as_str()) {
        Ok(document) => document,
        Err(error) => return vec![Err(at(file, error.span(), None, error.message()))],
    };
    let mut entries = Vec::new();
    for (key, item) in document.iter() {
        if key != "servers" {
            let span = document.key(key).and_then(toml_edit::Key::span);
            entries.push(Err(at(file, span, Some(key), "unknown key; servers are `[[servers]]` entries")));
            continue;
        }
        match tables(item) {
            Some(tables) => {
                entries.extend(tables.into_iter().map(|(table, span)| read_entry(file, table, span)))
            }
            None => entries.push(Err(at(file, item.span(), Some(key), "must be `[[servers]]` entries"))),
        }
    }
    entries
}

type Spanned<'a> = (&'a dyn TableLike, Option<Range<usize>>);

fn tables(item: &Item) -> Option<Vec<Spanned<'_>>> {
    if let Some(tables) = item.as_array_of_tables() {
        return Some(tables.iter().map(|table| (table as &dyn TableLike, table.span())).collect());
    }
    let inline = |value: &'_ Value| value.as_inline_table().is_some();
    let array = item.as_array().filter(|array| array.iter().all(inline))?;
    let tables = array
        .iter()
        .filter_map(|value| value.as_inline_table().map(|table| (table as &dyn TableLike, table.span())));
    Some(tables.collect())
}

fn read_entry(
    file: &ServerFile,
    table: &dyn TableLike,
    span: Option<Range<usize>>,
) -> Result<SourcedServer, ConfigProblem> {
    let line = line_at(&file.text, span.map_or(0, |span| span.start));
    let mut lines = HashMap::new();
    note_lines(&file.text, table, "", &mut lines);
    let fields = json_table(table);
    match read_server(&fields) {
        Ok(config) => Ok(SourcedServer { config, scope: file.scope, file: file.label.clone(), line, lines }),
        Err(error) => Err(ConfigProblem {
            file: file.label.clone(),
            line: line_in(&lines, &error.field).unwrap_or(line),
            server: fields.get("name").and_then(Json::as_str).map(str::to_owned),
            field: Some(error.field),
            message: error.message,
        }),
    }
}

/// Records the line of each field: `env`, and `env.NAME` within it.
fn note_lines(text: &str, table: &dyn TableLike, within: &str, lines: &mut HashMap<String, usize>) {
    for (key, item) in table.iter() {
        let field = format!("{within}{key}");
        let span = table.key(key).and_then(toml_edit::Key::span).or_else(|| item.span());
        if let Some(span) = span {
            lines.insert(field.clone(), line_at(text, span.start));
        }
        if let Some(inner) = item.as_table_like() {
            note_lines(text, inner, &format!("{field}."), lines);
        }
        for (index, value) in item.as_array().into_iter().flatten().enumerate() {
            if let Some(span) = value.span() {
                lines.insert(format!("{field}[{index}]"), line_at(text, span.start));
            }
        }
    }
}

/// Returns the line of a field, or of the field that contains it.
fn line_in(lines: &HashMap<String, usize>, field: &str) -> Option<usize> {
    let top = field.split(['.', '[']).next().unwrap_or(field);
    lines.get(field).or_else(|| lines.get(top)).copied()
}

fn at(file: &ServerFile, span: Option<Range<usize>>, field: Option<&str>, message: &str) -> ConfigProblem {
    problem(&file.label, &file.text, span, field, message.trim().replace('\n', "; "))
}

/// Returns a problem of a file, at its start if there is no span.
pub(super) fn problem(
    label: &str,
    text: &str,
    span: Option<Range<usize>>,
    field: Option<&str>,
    message: impl Into<String>,
) -> ConfigProblem {
    let line = line_at(text, span.map_or(0, |span| span.start));
    let (field, message) = (field.map(str::to_owned), message.into());
    ConfigProblem { file: label.to_owned(), line, server: None, field, message }
}

fn line_at(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().get(..offset).unwrap_or_default();
    1 + before.iter().filter(|byte| **byte == b'\n').count()
}

fn json_table(table: &dyn TableLike) -> Map<String, Json> {
    table.iter().map(|(key, item)| (key.to_owned(), json_item(item))).collect()
}

fn json_item(item: &Item) -> Json {
    match item {
        Item::None => Json::Null,
        Item::Value(value) => json_value(value),
        Item::Table(table) => Json::Object(json_table(table)),
        Item::ArrayOfTables(tables) => tables.iter().map(|table| Json::Object(json_table(table))).collect(),
    }
}

fn json_value(value: &Value) -> Json {
    match value {
        Value::String(text) => Json::from(text.value().as_str()),
        Value::Integer(number) => Json::from(*number.value()),
        Value::Float(number) => Json::from(*number.value()),
        Value::Boolean(flag) => Json::from(*flag.value()),
        Value::Datetime(time) => Json::from(time.value().to_string()),
        Value::Array(items) => items.iter().map(json_value).collect(),
        Value::InlineTable(table) => Json::Object(json_table(table)),
    }
}
