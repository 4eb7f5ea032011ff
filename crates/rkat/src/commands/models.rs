//! `rkat models`.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::{call, print_json};
use crate::compose::open_known;
use crate::env;
use crate::error::CliError;
use crate::out;
use crate::render::table;
use crate::scope::Scope;

pub(super) async fn models(scope: &Scope, json: bool) -> Result<ExitCode, CliError> {
    let runtime = open_known(scope)?;
    let catalog = call(&runtime, "meerkat_models_catalog", json!({})).await?;
    if json {
        print_json(&catalog);
    } else {
        let headings = ["MODEL", "PROVIDER", "CONTEXT", "MAX OUTPUT", "FEATURES"];
        out::print(&table(&headings, &rows(&catalog), env::page()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds a row for each model; the default of its provider is marked.
fn rows(catalog: &Value) -> Vec<Vec<String>> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut rows = Vec::new();
    for group in list(&catalog["providers"]) {
        for model in list(&group["models"]) {
            let mark = if model["id"] == group["default_model_id"] { " *" } else { "" };
            rows.push(vec![
                format!("{}{mark}", text(&model["id"])),
                text(&group["provider"]).to_owned(),
                tokens(&model["context_window"]),
                tokens(&model["max_output_tokens"]),
                abilities(&model["profile"]),
            ]);
        }
    }
    rows
}

fn abilities(profile: &Value) -> String {
    let names = [
        ("supports_thinking", "thinking"),
        ("supports_reasoning", "reasoning"),
        ("supports_web_search", "search"),
        ("vision", "images"),
        ("inline_video", "video"),
        ("realtime", "realtime-only"),
    ];
    let supported: Vec<_> =
        names.iter().filter(|(key, _)| profile[*key] == Value::Bool(true)).map(|(_, name)| *name).collect();
    supported.join(" ")
}

fn tokens(value: &Value) -> String {
    match value.as_u64() {
        None => "?".to_owned(),
        Some(count @ 1_000_000..) => format!("{:.1}M", count as f64 / 1_000_000.0),
        Some(count) => format!("{}k", count / 1000),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
