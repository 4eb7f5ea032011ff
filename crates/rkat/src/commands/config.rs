//! `rkat config`.

use std::path::Path;

use meerkat::Runtime;
use meerkat::operations::{Configure, arguments};
use meerkat_contracts::ConfigEnvelope;
use serde_json::{Value, json};

use super::{call, print_json};
use crate::args::{ConfigCommand, ConfigFormat, ConfigInput, ConfigSource};
use crate::compose::{open, open_known};
use crate::error::CliError;
use crate::out;
use crate::scope::Scope;
use crate::stdin;

pub(super) async fn config(scope: &Scope, command: ConfigCommand) -> Result<(), CliError> {
    match command {
        ConfigCommand::Get { format, json, with_generation } => {
            let runtime = open_known(scope)?;
            let envelope = configure(&runtime, json!({ "action": "get" })).await?;
            let as_json = json || format == ConfigFormat::Json;
            match (with_generation, as_json) {
                (true, _) => print_json(&envelope),
                (false, true) => print_json(&envelope.config),
                (false, false) => out::print(&to_toml(&envelope.config)?),
            }
        }
        ConfigCommand::Set(input) => change(scope, "set", "config", &input).await?,
        ConfigCommand::Patch(input) => change(scope, "patch", "patch", &input).await?,
    }
    Ok(())
}

async fn change(scope: &Scope, action: &str, key: &str, input: &ConfigInput) -> Result<(), CliError> {
    let document = document(&input.document)?;
    let runtime = open(scope)?;
    let generation = input.expected_generation;
    let request = json!({ "action": action, key: document, "expected_generation": generation });
    let envelope = configure(&runtime, request).await?;
    out::line(&format!("generation {} of realm {}", envelope.generation, envelope.realm_id));
    Ok(())
}

/// Reads or changes the config. The request is JSON because the user's document may be invalid.
async fn configure(runtime: &Runtime, request: Value) -> Result<ConfigEnvelope, meerkat::Error> {
    call::<Configure>(runtime, arguments::<Configure>(request)?).await
}

fn document(input: &ConfigSource) -> Result<Value, CliError> {
    if let Some(text) = &input.json {
        return from_json(text, "--json");
    }
    if let Some(text) = &input.toml {
        return from_toml(text, "--toml");
    }
    let path = input.file.as_deref().unwrap_or_else(|| Path::new("-"));
    let name = path.display().to_string();
    let text =
        stdin::read_file(path).map_err(|error| CliError::Io(format!("cannot read `{name}`"), error))?;
    if text.trim_start().starts_with('{') { from_json(&text, &name) } else { from_toml(&text, &name) }
}

fn from_json(text: &str, what: &str) -> Result<Value, CliError> {
    serde_json::from_str(text).map_err(|error| CliError::Usage(format!("`{what}` is not JSON: {error}")))
}

fn from_toml(text: &str, what: &str) -> Result<Value, CliError> {
    toml::from_str(text).map_err(|error| CliError::Usage(format!("`{what}` is not TOML: {error}")))
}

/// Renders a document as TOML, without keys that are not set, because TOML has no null.
fn to_toml(config: &Value) -> Result<String, CliError> {
    fn set(value: &Value) -> Value {
        match value {
            Value::Object(object) => {
                let entries = object.iter().map(|(key, value)| (key.clone(), set(value)));
                let is_empty = |value: &Value| {
                    value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty)
                };
                Value::Object(entries.filter(|(_, value)| !is_empty(value)).collect())
            }
            other => other.clone(),
        }
    }
    toml::to_string(&set(config))
        .map_err(|error| CliError::Usage(format!("the config has no TOML form: {error}")))
}
