//! `rkat models`.

use meerkat::ProfileEntry;
use meerkat::operations::{Models, ModelsReply, NoInput};

use super::{call, print_json};
use crate::compose::open_known;
use crate::env;
use crate::error::CliError;
use crate::out;
use crate::render::table;
use crate::scope::Scope;

pub(super) async fn models(scope: &Scope, json: bool) -> Result<(), CliError> {
    let runtime = open_known(scope)?;
    let catalog = call::<Models>(&runtime, NoInput {}).await?;
    if json {
        print_json(&catalog);
    } else {
        let headings = ["MODEL", "PROVIDER", "CONTEXT", "MAX OUTPUT", "FEATURES"];
        out::print(&table(&headings, &rows(&catalog), env::page()));
    }
    Ok(())
}

/// Builds a row for each model; the default of its provider is marked.
fn rows(catalog: &ModelsReply) -> Vec<Vec<String>> {
    let rows = catalog.providers.iter().flat_map(|group| {
        group.models.iter().map(|model| {
            let mark = if model.id == group.default_model_id { " *" } else { "" };
            vec![
                format!("{}{mark}", model.id),
                group.provider.to_string(),
                tokens(model.context_window),
                tokens(model.max_output_tokens.map(u64::from)),
                model.profile.as_ref().map(abilities).unwrap_or_default(),
            ]
        })
    });
    rows.collect()
}

fn abilities(profile: &ProfileEntry) -> String {
    let abilities = [
        (profile.supports_thinking, "thinking"),
        (profile.supports_reasoning, "reasoning"),
        (profile.supports_web_search, "search"),
        (profile.vision, "images"),
        (profile.inline_video, "video"),
        (profile.realtime, "realtime-only"),
    ];
    let supported: Vec<_> = abilities.iter().filter(|(has, _)| *has).map(|(_, name)| *name).collect();
    supported.join(" ")
}

fn tokens(count: Option<u64>) -> String {
    match count {
        None => "?".to_owned(),
        Some(count @ 1_000_000..) => format!("{:.1}M", count as f64 / 1_000_000.0),
        Some(count) => format!("{}k", count / 1000),
    }
}
