//! `rkat session`.

use std::process::ExitCode;

use meerkat::{ArchivedFilter, Clock as _, SessionQuery, SystemClock};
use serde_json::json;

use super::{call, former_realms, list_sessions, open_for, pairs, print_json};
use crate::args::SessionCommand;
use crate::compose::open_known;
use crate::env;
use crate::error::CliError;
use crate::locate::Locator;
use crate::out;
use crate::render;
use crate::scope::Scope;

pub(super) async fn session(scope: Scope, command: SessionCommand) -> Result<ExitCode, CliError> {
    match command {
        SessionCommand::List { limit, offset, labels, archived, json } => {
            let labels = pairs(&labels)?;
            let runtime = open_known(&scope)?;
            former_realms::print_notice(&scope);
            let request = json!({
                "limit": limit, "offset": offset, "labels": labels, "include_archived": archived,
            });
            let archived = if archived { ArchivedFilter::Included } else { ArchivedFilter::Hidden };
            let query = SessionQuery { labels, archived, offset, limit: Some(limit) };
            let views = list_sessions(&runtime, query).await?;
            if json {
                print_json(&call(&runtime, "meerkat_sessions", request).await?);
                return Ok(ExitCode::SUCCESS);
            }
            if views.is_empty() {
                out::stderr_line(&format!("no sessions in realm `{}`", runtime.realm().id()));
            } else {
                out::print(&render::sessions(&views, SystemClock.now().as_second(), env::page()));
            }
        }
        SessionCommand::Show { id, json } => show(&scope, &id, json).await?,
        SessionCommand::Delete { id, json } => {
            let done = on_session(&scope, &id, "meerkat_archive").await?;
            if json {
                print_json(&done)
            } else {
                out::line(&format!("archived {}", text(&done["session_id"])))
            }
        }
        SessionCommand::Interrupt { id, json } => {
            let done = on_session(&scope, &id, "meerkat_interrupt").await?;
            if json {
                print_json(&done)
            } else {
                out::line(&format!("interrupted {}", text(&done["session_id"])))
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Calls an operation that takes a session.
async fn on_session(scope: &Scope, id: &str, operation: &str) -> Result<serde_json::Value, CliError> {
    let locator = Locator::parse(id);
    let runtime = open_for(scope, locator.realm.as_deref())?;
    let id = locator.find(&runtime).await?;
    call(&runtime, operation, json!({ "session_id": id })).await
}

async fn show(scope: &Scope, id: &str, json: bool) -> Result<(), CliError> {
    let locator = Locator::parse(id);
    let runtime = open_for(scope, locator.realm.as_deref())?;
    let id = locator.find(&runtime).await?;
    if json {
        let mut session = call(&runtime, "meerkat_read", json!({ "session_id": id })).await?;
        let messages = runtime.sessions().history(id, 0, None).await?.messages;
        session["messages"] = serde_json::to_value(messages).map_err(meerkat::RecordError::Encode)?;
        print_json(&session);
        return Ok(());
    }
    let view = runtime.sessions().read(id).await?;
    let history = runtime.sessions().history(id, 0, None).await?;
    let rows = vec![view];
    out::print(&render::sessions(&rows, SystemClock.now().as_second(), env::page()));
    for message in &history.messages {
        out::print(&format!("\n{}", render::message(message)));
    }
    let pending = runtime.sessions().pending_calls(id).await?;
    for call in pending.calls {
        out::line(&format!("\nwaiting for the result of {} (`{}`)", call.name, call.id));
    }
    for awaited in pending.approvals {
        let (call, end) = (awaited.call, awaited.expires_at);
        out::line(&format!("\nawaiting approval of {} (`{}`) until {end}", call.name, call.id));
    }
    Ok(())
}

fn text(value: &serde_json::Value) -> &str {
    value.as_str().unwrap_or_default()
}
