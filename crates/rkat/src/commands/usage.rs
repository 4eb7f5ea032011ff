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

pub(super) async fn usage(scope: &Scope, by: UsageBy, json: bool) -> Result<(), CliError> {
    let runtime = open_known(scope)?;
    let query = SessionQuery { archived: ArchivedFilter::Included, ..SessionQuery::default() };
    let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
    for view in list_sessions(&runtime, query).await? {
        let sum = sums.entry(key(by, &view)).or_default();
        sum.sessions += 1;
        sum.usage += view.usage;
        sum.cost += view.cost;
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

/// Returns the group of a session. Its usage counts toward its current model and the day of its last change.
fn key(by: UsageBy, view: &SessionView) -> String {
    match by {
        UsageBy::Model => view.model.clone(),
        UsageBy::Day => view.updated_at.to_string().chars().take("2026-01-01".len()).collect(),
        UsageBy::Session => view.id.to_string(),
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
