//! `rkat mcp test`: starts one server and reports its status.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use meerkat::McpServersOptions;
use meerkat::mcp::config::{ServerConfig, SourcedServer};
use meerkat::mcp::{ServerSet, ServerSetOptions, ServerState, ServerView};
use serde_json::{Value, json};

use super::{find_startable, print_json};
use crate::compose;
use crate::error::CliError;
use crate::out;
use crate::render::count;
use crate::scope::Scope;

/// Starts one server and shows its tools, or its stderr if it fails.
pub(super) async fn test(scope: &Scope, name: &str, json: bool) -> Result<ExitCode, CliError> {
    let (server, config) = find_startable(&scope.server_files(), name)?;
    let Some(view) = probe(scope, config).await else { return Ok(ExitCode::FAILURE) };
    let ready = view.state == ServerState::Ready;
    if json {
        print_json(&test_report(&view));
    } else if ready {
        out::line(&format!("{name} is ready with {}", count(view.tools.len(), "tool")));
        for tool in &view.tools {
            out::line(&format!("  {}  ({})", tool.exposed, tool.tool));
        }
    } else {
        out::stderr_line(&format!("error: {name}: {}", reason(&view)));
        out::stderr_line(&format!("hint: {}", location(&server, &reason(&view))));
    }
    for warning in &view.warnings {
        out::warn(format_args!("{name}: {warning}"));
    }
    Ok(if ready { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Starts a server, waits until it is ready or times out, and stops it.
pub(super) async fn probe(scope: &Scope, config: ServerConfig) -> Option<ServerView> {
    let limit = config.connect_timeout * 2;
    let McpServersOptions { set, notify, .. } = compose::server_options(scope, Arc::new(out::stderr_line));
    let set = ServerSet::new(ServerSetOptions { notify, ..set });
    set.add(ServerConfig { enabled: true, ..config });
    set.wait_until_ready(limit.max(Duration::from_secs(1))).await;
    set.confirm(limit).await;
    let view = set.views().into_iter().next();
    set.close().await;
    view
}

/// Returns a hint with the line of the config to change.
fn location(server: &SourcedServer, reason: &str) -> String {
    let fields = ["connect_timeout_secs", "command", "headers", "url"];
    let field = fields.into_iter().find(|field| reason.contains(&format!("`{field}")));
    let line = field.map_or(server.line, |field| server.line_of(field));
    format!("it is configured at {}:{line}", server.file)
}

pub(super) fn reason(view: &ServerView) -> String {
    match &view.state {
        ServerState::Failed { reason } | ServerState::NeedsReauth { reason } => reason.clone(),
        ServerState::Pending => "timed out".to_owned(),
        ServerState::Ready | ServerState::Disabled | ServerState::Removing => String::new(),
    }
}

fn test_report(view: &ServerView) -> Value {
    let tools: Vec<_> =
        view.tools.iter().map(|tool| json!({ "tool": tool.tool, "exposed": tool.exposed })).collect();
    let ready = view.state == ServerState::Ready;
    json!({
        "name": view.name,
        "ready": ready,
        "error": (!ready).then(|| reason(view)),
        "tools": tools,
        "warnings": view.warnings,
        "stderr": view.stderr_tail,
    })
}
