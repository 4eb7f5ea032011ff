//! `rkat usage`.

use std::collections::BTreeMap;

use meerkat::{ArchivedFilter, SessionQuery, SessionView, Usage, Usd};
use serde_json::{Value, json};

use super::{list_sessions, print_json};
use crate::args::UsageBy;
use crate::compose::open_known;
use crate::env;
use crate::error::CliError;
use crate::out;
use crate::render::table;
use crate::scope::Scope;

#[derive(Default)]
struct Sum {
    sessions: u64,
    usage: Usage,
    cost: Usd,
}

pub(super) async fn usage(
    scope: &Scope,
    (by, label): (UsageBy, Option<String>),
    json: bool,
) -> Result<(), CliError> {
    if label.is_some() && by != UsageBy::Label {
        return Err(CliError::Usage("a label KEY needs `--by label`".to_owned()));
    }
    let runtime = open_known(scope)?;
    let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
    let mut add = |key, usage, cost| {
        let sum = sums.entry(key).or_default();
        sum.sessions += 1;
        sum.usage += usage;
        sum.cost += cost;
    };
    if by == UsageBy::Day {
        for row in runtime.sessions().usage().await? {
            add(row.day.to_string().chars().take("2026-01-01".len()).collect(), row.usage, row.cost);
        }
    } else {
        let query = SessionQuery { archived: ArchivedFilter::Included, ..SessionQuery::default() };
        for view in list_sessions(&runtime, query).await? {
            add(key(label.as_deref(), by, &view), view.usage, view.cost);
        }
    }
    if json {
        print_json(&json!({ "by": by.word(), "rows": sums.iter().map(row).collect::<Vec<_>>() }));
    } else {
        let rows: Vec<_> = sums.iter().map(line).collect();
        let heading = by.word().to_uppercase();
        out::print(&table(&[&heading, "SESSIONS", "INPUT", "OUTPUT", "COST"], &rows, env::page()));
    }
    Ok(())
}

/// Returns the group of a session. Its usage counts toward its current model.
fn key(label: Option<&str>, by: UsageBy, view: &SessionView) -> String {
    match label {
        Some(label) => view.labels.get(label).map_or("-", String::as_str).to_owned(),
        None if by == UsageBy::Model => view.model.clone(),
        None => view.id.to_string(),
    }
}

fn row((key, sum): (&String, &Sum)) -> Value {
    json!({ "key": key, "sessions": sum.sessions, "usage": sum.usage, "cost_usd": sum.cost })
}

fn line((key, sum): (&String, &Sum)) -> Vec<String> {
    let read = sum.usage.input_tokens
        + sum.usage.cache_read_tokens.unwrap_or(0)
        + sum.usage.cache_creation_tokens.unwrap_or(0);
    let cost = if sum.cost.is_zero() { "-".to_owned() } else { sum.cost.to_string() };
    vec![key.clone(), sum.sessions.to_string(), read.to_string(), sum.usage.output_tokens.to_string(), cost]
}
