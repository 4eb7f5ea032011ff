//! Config page: every key with its type, default, and meaning.

use meerkat::Config;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::fields::{about, kind};
use crate::table;

pub(crate) fn page() -> Result<String, serde_json::Error> {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let schema = settings.into_generator().into_root_schema_for::<Config>().to_value();
    let defaults = serde_json::to_value(Config::default())?;
    let mut page = "# Config\n\n\
        A realm has one config document, which you read and change with `rkat config` or `meerkat_config`. Keys that \
        are not set have their defaults; unknown keys are rejected. Durations are written as `500ms`, `30s`, `10m`, or \
        `2h`; a plain number means milliseconds.\n"
        .to_owned();
    for (section, part) in schema["properties"].as_object().into_iter().flatten() {
        let row = |(key, property): (&String, &Value)| {
            let default = match &defaults[section][key] {
                Value::Null => "not set".to_owned(),
                value => format!("`{value}`"),
            };
            vec![format!("`{section}.{key}`"), kind(property), default, about(property)]
        };
        let rows: Vec<_> = part["properties"].as_object().into_iter().flatten().map(row).collect();
        let table = table(&["Key", "Type", "Default", "Meaning"], &rows);
        page.push_str(&format!("\n## `{section}`\n\n{}\n\n{table}", about(part)));
    }
    Ok(page)
}
