//! Parsing of one entry, from an object of fields to a [`ServerConfig`].

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value};

use super::{CONNECT_TIMEOUT, Endpoint, EraChoice, FieldError, ServerConfig, TOOL_TIMEOUT, TransportConfig};

const STDIO: [&str; 3] = ["command", "args", "env"];
const REMOTE: [&str; 2] = ["url", "headers"];
const COMMON: [&str; 9] = [
    "name",
    "transport",
    "connect_timeout_secs",
    "tool_timeout_secs",
    "required",
    "enabled",
    "era",
    "allow",
    "deny",
];

/// Maximum of a time limit, in seconds: one day.
const MAX_SECONDS: u64 = 86_400;

pub(super) fn read_server(fields: &Map<String, Value>) -> Result<ServerConfig, FieldError> {
    for key in fields.keys() {
        let key = key.as_str();
        if !COMMON.contains(&key) && !STDIO.contains(&key) && !REMOTE.contains(&key) {
            let known = [&COMMON[..], &STDIO[..], &REMOTE[..]].concat().join("`, `");
            return Err(FieldError::new(key, format!("unknown field; expected one of `{known}`")));
        }
    }
    let name =
        text(fields, "name")?.ok_or_else(|| FieldError::new("name", "missing; give the server a name"))?;
    check_name(&name)?;
    Ok(ServerConfig {
        name,
        transport: read_transport(fields)?,
        connect_timeout: seconds(fields, "connect_timeout_secs", CONNECT_TIMEOUT)?,
        tool_timeout: seconds(fields, "tool_timeout_secs", TOOL_TIMEOUT)?,
        required: flag(fields, "required", Flag::Off)?,
        enabled: flag(fields, "enabled", Flag::On)?,
        era: read_era(fields)?,
        allow: texts(fields, "allow")?,
        deny: texts(fields, "deny")?,
    })
}

pub(super) fn check_name(name: &str) -> Result<(), FieldError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() || name.len() > 64 || !name.chars().all(fits) {
        let message = "must have 1 to 64 letters, digits, `_`, `-` or `.`";
        return Err(FieldError::new("name", message));
    }
    Ok(())
}

fn read_transport(fields: &Map<String, Value>) -> Result<TransportConfig, FieldError> {
    let transport = text(fields, "transport")?;
    let has = |key: &str| fields.contains_key(key);
    match (has("command"), has("url")) {
        (true, true) => Err(FieldError::new("url", "cannot be combined with `command`; remove one of them")),
        (false, false) => Err(FieldError::new("command", "missing; set `command` or `url`")),
        (true, false) => {
            check_absent(fields, &REMOTE, "belongs to a server with `url`")?;
            read_stdio(fields, transport.as_deref())
        }
        (false, true) => {
            check_absent(fields, &STDIO, "belongs to a server with `command`")?;
            read_remote(fields, transport.as_deref())
        }
    }
}

fn read_stdio(fields: &Map<String, Value>, transport: Option<&str>) -> Result<TransportConfig, FieldError> {
    if let Some(other) = transport.filter(|name| *name != "stdio") {
        return Err(FieldError::new(
            "transport",
            format!("`{other}` needs `url`; with `command` it is `stdio`"),
        ));
    }
    let command = text(fields, "command")?.unwrap_or_default();
    if command.trim().is_empty() {
        return Err(FieldError::new("command", "is empty; set it to the command to start"));
    }
    Ok(TransportConfig::Stdio { command, args: texts(fields, "args")?, env: table(fields, "env")? })
}

fn read_remote(fields: &Map<String, Value>, transport: Option<&str>) -> Result<TransportConfig, FieldError> {
    let url = text(fields, "url")?.unwrap_or_default();
    if !url.contains("${") {
        check_url(&url)?;
    }
    let endpoint = Endpoint { url, headers: table(fields, "headers")? };
    match transport {
        None => Ok(TransportConfig::Url(endpoint)),
        Some("streamable-http" | "http") => Ok(TransportConfig::Http(endpoint)),
        Some("sse") => Ok(TransportConfig::Sse(endpoint)),
        Some(other) => Err(FieldError::new(
            "transport",
            format!("`{other}` is not a transport; with `url` it is `streamable-http` or `sse`"),
        )),
    }
}

pub(super) fn check_url(url: &str) -> Result<(), FieldError> {
    let parsed = url::Url::parse(url).map_err(|error| FieldError::new("url", format!("`{url}`: {error}")))?;
    match parsed.scheme() {
        "http" | "https" => Ok(()),
        other => Err(FieldError::new("url", format!("starts with `{other}:`; use `https://` or `http://`"))),
    }
}

fn check_absent(fields: &Map<String, Value>, keys: &[&str], why: &str) -> Result<(), FieldError> {
    match keys.iter().find(|key| fields.contains_key(**key)) {
        Some(key) => Err(FieldError::new(key, why)),
        None => Ok(()),
    }
}

fn read_era(fields: &Map<String, Value>) -> Result<EraChoice, FieldError> {
    match text(fields, "era")?.as_deref() {
        None | Some("auto") => Ok(EraChoice::Auto),
        Some("legacy") => Ok(EraChoice::Legacy),
        Some("modern") => Ok(EraChoice::Modern),
        Some(other) => Err(FieldError::new("era", format!("`{other}` is not `auto`, `legacy` or `modern`"))),
    }
}

fn text(fields: &Map<String, Value>, key: &str) -> Result<Option<String>, FieldError> {
    match fields.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(FieldError::new(key, "must be a string")),
    }
}

fn texts(fields: &Map<String, Value>, key: &str) -> Result<Vec<String>, FieldError> {
    let wrong = || FieldError::new(key, "must be a list of strings");
    match fields.get(key) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(items)) => items
            .iter()
            .enumerate()
            .map(|(index, item)| match item.as_str() {
                Some(text) => Ok(text.to_owned()),
                None => Err(FieldError::new(&format!("{key}[{index}]"), "must be a string")),
            })
            .collect(),
        Some(_) => Err(wrong()),
    }
}

fn table(fields: &Map<String, Value>, key: &str) -> Result<BTreeMap<String, String>, FieldError> {
    let wrong = || FieldError::new(key, "must be a table of strings");
    match fields.get(key) {
        None | Some(Value::Null) => Ok(BTreeMap::new()),
        Some(Value::Object(entries)) => entries
            .iter()
            .map(|(name, value)| match value.as_str() {
                Some(text) => Ok((name.clone(), text.to_owned())),
                None => Err(FieldError::new(&format!("{key}.{name}"), "must be a string")),
            })
            .collect(),
        Some(_) => Err(wrong()),
    }
}

fn seconds(fields: &Map<String, Value>, key: &str, default: Duration) -> Result<Duration, FieldError> {
    match fields.get(key) {
        None | Some(Value::Null) => Ok(default),
        Some(value) => match value.as_u64() {
            Some(seconds @ 1..=MAX_SECONDS) => Ok(Duration::from_secs(seconds)),
            _ => Err(FieldError::new(
                key,
                format!("must be a whole number of seconds from 1 to {MAX_SECONDS}"),
            )),
        },
    }
}

/// Default of a switch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flag {
    On,
    Off,
}

fn flag(fields: &Map<String, Value>, key: &str, default: Flag) -> Result<bool, FieldError> {
    match fields.get(key) {
        None | Some(Value::Null) => Ok(default == Flag::On),
        Some(Value::Bool(value)) => Ok(*value),
        Some(_) => Err(FieldError::new(key, "must be `true` or `false`")),
    }
}
