//! Edits of an MCP config file that preserve everything else, including comments.

use std::collections::BTreeMap;

use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, TomlError, Value, value};

use super::load::problem;
use super::{
    CONNECT_TIMEOUT, ConfigProblem, Endpoint, EraChoice, ServerConfig, TOOL_TIMEOUT, TransportConfig,
};

/// Adds an entry at the end of a file.
///
/// # Errors
///
/// Returns an error if the file does not parse or already has an entry of that name.
pub fn add_server(label: &str, text: &str, server: &ServerConfig) -> Result<String, ConfigProblem> {
    let mut document = parse(label, text)?;
    if position(&document, &server.name).is_some() {
        let message = format!("a server named `{}` already exists; remove it first", server.name);
        return Err(problem(label, text, None, Some("name"), message));
    }
    let entry = entry(server);
    let servers = document.entry("servers").or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
    match servers {
        Item::ArrayOfTables(tables) => tables.push(entry),
        Item::Value(Value::Array(list)) => list.push(entry.into_inline_table()),
        _ => return Err(problem(label, text, None, Some("servers"), "must be `[[servers]]` entries")),
    }
    Ok(document.to_string())
}

/// Removes an entry; `None` if the file has none of that name.
///
/// # Errors
///
/// Returns an error if the file does not parse.
pub fn remove_server(label: &str, text: &str, name: &str) -> Result<Option<String>, ConfigProblem> {
    let mut document = parse(label, text)?;
    let Some(index) = position(&document, name) else { return Ok(None) };
    match document.get_mut("servers") {
        Some(Item::ArrayOfTables(tables)) => drop(tables.remove(index)),
        Some(Item::Value(Value::Array(list))) => drop(list.remove(index)),
        _ => return Ok(None),
    }
    Ok(Some(document.to_string()))
}

fn parse(label: &str, text: &str) -> Result<DocumentMut, ConfigProblem> {
    text.parse().map_err(|error: TomlError| problem(label, text, error.span(), None, error.message()))
}

fn position(document: &DocumentMut, name: &str) -> Option<usize> {
    let matches = |actual: Option<&str>| actual == Some(name);
    match document.get("servers")? {
        Item::ArrayOfTables(tables) => {
            tables.iter().position(|table| matches(table.get("name").and_then(Item::as_str)))
        }
        Item::Value(Value::Array(list)) => list.iter().position(|entry| {
            matches(entry.as_inline_table().and_then(|table| table.get("name")).and_then(Value::as_str))
        }),
        _ => None,
    }
}

fn entry(server: &ServerConfig) -> Table {
    let mut table = Table::new();
    table.insert("name", value(&server.name));
    match &server.transport {
        TransportConfig::Stdio { command, args, env } => {
            table.insert("command", value(command));
            insert_list(&mut table, "args", args);
            insert_map(&mut table, "env", env);
        }
        TransportConfig::Url(endpoint) => insert_endpoint(&mut table, endpoint, None),
        TransportConfig::Http(endpoint) => insert_endpoint(&mut table, endpoint, Some("streamable-http")),
        TransportConfig::Sse(endpoint) => insert_endpoint(&mut table, endpoint, Some("sse")),
    }
    insert_rest(&mut table, server);
    table
}

fn insert_rest(table: &mut Table, server: &ServerConfig) {
    let seconds = |duration: std::time::Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    if server.connect_timeout != CONNECT_TIMEOUT {
        table.insert("connect_timeout_secs", value(seconds(server.connect_timeout)));
    }
    if server.tool_timeout != TOOL_TIMEOUT {
        table.insert("tool_timeout_secs", value(seconds(server.tool_timeout)));
    }
    if server.required {
        table.insert("required", value(true));
    }
    if !server.enabled {
        table.insert("enabled", value(false));
    }
    if server.era != EraChoice::Auto {
        table.insert("era", value(server.era.as_str()));
    }
    insert_list(table, "allow", &server.allow);
    insert_list(table, "deny", &server.deny);
}

fn insert_endpoint(table: &mut Table, endpoint: &Endpoint, transport: Option<&str>) {
    table.insert("url", value(&endpoint.url));
    insert_map(table, "headers", &endpoint.headers);
    if let Some(transport) = transport {
        table.insert("transport", value(transport));
    }
}

fn insert_list(table: &mut Table, key: &str, items: &[String]) {
    if !items.is_empty() {
        table.insert(key, value(items.iter().collect::<Array>()));
    }
}

fn insert_map(table: &mut Table, key: &str, entries: &BTreeMap<String, String>) {
    if !entries.is_empty() {
        let inline: InlineTable = entries.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        table.insert(key, value(inline));
    }
}
