//! Parsing of one entry, from an object of fields to a [`ServerConfig`].

use std::collections::BTreeMap;
use std::time::Duration;

use meerkat_core::excerpt;
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
        required: flag(fields, "required")?.unwrap_or(false),
        enabled: flag(fields, "enabled")?.unwrap_or(true),
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
        let message = format!("`{}` needs `url`; with `command` it is `stdio`", excerpt(other));
        return Err(FieldError::new("transport", message));
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
        Some(other) => {
            let message = format!(
                "`{}` is not a transport; with `url` it is `streamable-http` or `sse`",
                excerpt(other)
            );
            Err(FieldError::new("transport", message))
        }
    }
}

pub(super) fn check_url(url: &str) -> Result<(), FieldError> {
    let parsed = url::Url::parse(url)
        .map_err(|error| FieldError::new("url", format!("`{}`: {error}", excerpt(url))))?;
    match parsed.scheme() {
        "http" | "https" => Ok(()),
        other => Err(FieldError::new(
            "url",
            format!("starts with `{}:`; use `https://` or `http://`", excerpt(other)),
        )),
    }
}

fn check_absent(fields: &Map<String, Value>, keys: &[&str], why: &str) -> Result<(), FieldError> {
    match keys.iter().find(|key| fields.contains_key(**key)) {
        Some(key) => Err(FieldError::new(key, why)),
        None => Ok(()),
    }
}

fn read_era(fields: &Map<String, Value>) -> Result<EraChoice, FieldError> {
    let Some(name) = text(fields, "era")? else { return Ok(EraChoice::Auto) };
    let era = EraChoice::ALL.into_iter().find(|era| era.as_str() == name);
    era.ok_or_else(|| {
        FieldError::new("era", format!("`{}` is not `auto`, `legacy` or `modern`", excerpt(&name)))
    })
}

/// Reads a field of the expected type; `None` if it is missing or null.
fn read<'a, T>(
    fields: &'a Map<String, Value>,
    key: &str,
    expected: &str,
    convert: impl FnOnce(&'a Value) -> Option<T>,
) -> Result<Option<T>, FieldError> {
    let value = fields.get(key).filter(|value| !value.is_null());
    value.map(|value| convert(value).ok_or_else(|| FieldError::new(key, expected))).transpose()
}

fn string(field: &str, value: &Value) -> Result<String, FieldError> {
    value.as_str().map(str::to_owned).ok_or_else(|| FieldError::new(field, "must be a string"))
}

fn text(fields: &Map<String, Value>, key: &str) -> Result<Option<String>, FieldError> {
    let text = read(fields, key, "must be a string", Value::as_str)?;
    Ok(text.map(str::to_owned))
}

fn texts(fields: &Map<String, Value>, key: &str) -> Result<Vec<String>, FieldError> {
    let items = read(fields, key, "must be a list of strings", Value::as_array)?.into_iter().flatten();
    items.enumerate().map(|(index, item)| string(&format!("{key}[{index}]"), item)).collect()
}

fn table(fields: &Map<String, Value>, key: &str) -> Result<BTreeMap<String, String>, FieldError> {
    let entries = read(fields, key, "must be a table of strings", Value::as_object)?.into_iter().flatten();
    entries.map(|(name, value)| Ok((name.clone(), string(&format!("{key}.{name}"), value)?))).collect()
}

fn seconds(fields: &Map<String, Value>, key: &str, default: Duration) -> Result<Duration, FieldError> {
    let expected = format!("must be a whole number of seconds from 1 to {MAX_SECONDS}");
    let in_range = |value: &Value| value.as_u64().filter(|seconds| (1..=MAX_SECONDS).contains(seconds));
    Ok(read(fields, key, &expected, in_range)?.map_or(default, Duration::from_secs))
}

fn flag(fields: &Map<String, Value>, key: &str) -> Result<Option<bool>, FieldError> {
    read(fields, key, "must be `true` or `false`", Value::as_bool)
}
