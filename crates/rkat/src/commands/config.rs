//! `rkat config`.

use std::io::Read as _;
use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};

use super::{call, print_json};
use crate::args::{ConfigCommand, ConfigFormat, ConfigInput, ConfigSource};
use crate::compose::{open, open_known};
use crate::error::CliError;
use crate::out;
use crate::scope::Scope;

pub(super) async fn config(scope: &Scope, command: ConfigCommand) -> Result<ExitCode, CliError> {
    match command {
        ConfigCommand::Get { format, json, with_generation } => {
            let runtime = open_known(scope)?;
            let envelope = call(&runtime, "meerkat_config", json!({ "action": "get" })).await?;
            let as_json = json || format == ConfigFormat::Json;
            match (with_generation, as_json) {
                (true, _) => print_json(&envelope),
                (false, true) => print_json(&envelope["config"]),
                (false, false) => out::print(&to_toml(&envelope["config"])?),
            }
        }
        ConfigCommand::Set(input) => change(scope, "set", "config", &input).await?,
        ConfigCommand::Patch(input) => change(scope, "patch", "patch", &input).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn change(scope: &Scope, action: &str, key: &str, input: &ConfigInput) -> Result<(), CliError> {
    let document = document(&input.document)?;
    let runtime = open(scope)?;
    let mut request = json!({ "action": action, "expected_generation": input.expected_generation });
    request[key] = document;
    let envelope = call(&runtime, "meerkat_config", request).await?;
    let realm = envelope["realm_id"].as_str().unwrap_or("?");
    out::line(&format!("generation {} of realm {realm}", envelope["generation"]));
    Ok(())
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
    let text = if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(path)
    };
    let text = text.map_err(|error| CliError::Io(format!("cannot read `{name}`"), error))?;
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
