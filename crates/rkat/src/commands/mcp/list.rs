//! `rkat mcp list`: configured servers, or their status once started.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use meerkat::mcp::config::{Scope as FileScope, SourcedServer, TransportConfig};
use meerkat::mcp::{LoginState, ServerState, ServerView, TokenStore, token_key};
use meerkat::{LoadedServerFiles, McpServers, ProjectTrust, TokenDir, escape_line};
use serde_json::{Value, json};

use super::probe::reason;
use super::{config_scope, print_json, tokens};
use crate::args::McpScope;
use crate::compose;
use crate::env;
use crate::error::CliError;
use crate::out;
use crate::render::{clip, shell_word, table, unclipped_table};
use crate::scope::Scope;

/// Placeholder for a secret.
const MASK: &str = "***";
/// Upper bound of the wait for servers; each server has its own, shorter time limit.
const WAIT_TIMEOUT: Duration = Duration::from_secs(24 * 3600);
/// Time limit for servers to stop.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// Describes an entry as JSON, with secrets masked.
pub(super) fn entry_json(server: &SourcedServer, trust: ProjectTrust) -> Value {
    let mut entry = server.config.masked();
    entry["scope"] = json!(match server.scope {
        FileScope::Project => "project",
        FileScope::User => "user",
    });
    entry["file"] = json!(format!("{}:{}", server.file, server.line));
    entry["trusted"] = json!(server.scope == FileScope::User || trust == ProjectTrust::Trusted);
    entry
}

pub(super) async fn list(scope: &Scope, only: Option<McpScope>, json: bool) -> Result<(), CliError> {
    let LoadedServerFiles { entries: loaded, trust } = scope.server_files().load()?;
    let tokens = tokens(scope).ok();
    let mut entries = Vec::new();
    // An untrusted entry shadows nothing.
    let unshadowed = loaded.shadowed.iter().filter(|_| trust != ProjectTrust::Trusted);
    for server in loaded.servers.iter().chain(unshadowed).filter(|server| is_in_scope(server, only)) {
        let mut entry = entry_json(server, trust);
        entry["login"] = json!(stored_login(server, tokens.as_ref()).await);
        entries.push(entry);
    }
    let mut problems: Vec<String> = loaded.problems.iter().map(ToString::to_string).collect();
    let unset = loaded.servers.iter().filter_map(|server| server.expanded(&env::secret).err());
    problems.extend(unset.map(|problem| problem.to_string()));
    if json {
        print_json(&json!({ "servers": entries, "problems": problems }));
        return Ok(());
    }
    if entries.is_empty() {
        out::stderr_line("no MCP servers; `rkat mcp add NAME -- COMMAND` adds one");
    } else {
        let rows: Vec<_> = entries.iter().map(row).collect();
        let head = ["NAME", "SCOPE", "TRANSPORT", "STATE", "LOGIN", "TARGET"];
        out::print(&unclipped_table(&head, &rows, env::page()));
    }
    for entry in entries.iter().filter(|entry| entry["trusted"] == false && is_masked(entry)) {
        let [name, file] = ["name", "file"].map(|key| entry[key].as_str().unwrap_or_default());
        out::warn(format_args!("parts of `{name}` are masked; read {file} before you trust it"));
    }
    problems.iter().for_each(out::warn);
    Ok(())
}

fn is_in_scope(server: &SourcedServer, only: Option<McpScope>) -> bool {
    only.is_none_or(|only| config_scope(only) == server.scope)
}

/// Returns the login state of a server when it was last used.
async fn stored_login(server: &SourcedServer, tokens: Option<&TokenDir>) -> Option<LoginState> {
    let config = server.expanded(&env::secret).ok()?;
    let (TransportConfig::Url(endpoint) | TransportConfig::Http(endpoint)) = &config.transport else {
        return None;
    };
    let text = tokens?.load(&token_key(&config.name, &endpoint.url)).await.ok()??;
    Some(LoginState::from_tokens(&text))
}

fn row(entry: &Value) -> Vec<String> {
    let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    let state = match (entry["enabled"] == true, entry["trusted"] == true) {
        (false, _) => "disabled",
        (true, true) => "enabled",
        (true, false) => "not trusted",
    };
    vec![text("name"), text("scope"), text("transport"), state.to_owned(), text("login"), target(entry)]
}

/// Renders the command or URL of an entry in full, so that a project cannot hide what its file would start.
fn target(entry: &Value) -> String {
    if let Some(url) = entry["url"].as_str() {
        return escape_line(url).into_owned();
    }
    let env = entry["env"].as_object().into_iter().flatten();
    let env = env.map(|(name, value)| format!("{}={}", shell_word(name), render_value(value)));
    let args = entry["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let command = entry["command"].as_str().into_iter().chain(args).map(shell_word);
    env.chain(command).collect::<Vec<_>>().join(" ")
}

fn render_value(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(String::new, |text| if text == MASK { text.to_owned() } else { shell_word(text) })
}

/// Returns `true` if a part of an entry is masked.
fn is_masked(entry: &Value) -> bool {
    match entry {
        Value::String(text) => text.contains(MASK),
        Value::Array(values) => values.iter().any(is_masked),
        Value::Object(fields) => fields.values().any(is_masked),
        _ => false,
    }
}

/// A server that runs start.
pub(crate) struct CheckedServer {
    pub(crate) name: String,
    pub(crate) required: bool,
    /// Reason why it is not ready.
    pub(crate) error: Option<String>,
}

/// Starts all enabled servers, waits for them, and returns their status.
pub(crate) async fn start_all(scope: &Scope) -> Vec<ServerView> {
    let running = McpServers::new(compose::server_options(scope, Arc::new(out::stderr_line)));
    running.start();
    running.shared().wait_until_ready(WAIT_TIMEOUT).await;
    running.shared().confirm(WAIT_TIMEOUT).await;
    let views = running.shared().views();
    running.close(SHUTDOWN_TIMEOUT).await;
    views
}

/// Returns the servers that runs start. One whose variables are not set has no view.
pub(crate) fn check(
    LoadedServerFiles { entries, trust }: &LoadedServerFiles,
    only: Option<McpScope>,
    views: &[ServerView],
) -> Vec<CheckedServer> {
    let is_trusted =
        |server: &&SourcedServer| server.scope == FileScope::User || *trust == ProjectTrust::Trusted;
    let unshadowed = entries.shadowed.iter().filter(|_| *trust != ProjectTrust::Trusted);
    let servers = entries.servers.iter().chain(unshadowed).filter(is_trusted);
    let servers = servers.filter(|server| server.config.enabled && is_in_scope(server, only));
    let check = |server: &SourcedServer| {
        let view = views.iter().find(|view| view.name == server.config.name);
        let error = match (server.expanded(&env::secret), view) {
            (Err(problem), _) => Some(problem.to_string()),
            (Ok(_), Some(view)) => (view.state != ServerState::Ready).then(|| reason(view)),
            (Ok(_), None) => Some("it was not started".to_owned()),
        };
        CheckedServer { name: server.config.name.clone(), required: server.config.required, error }
    };
    servers.map(check).collect()
}

/// Returns `true` if there are servers, and none is ready.
pub(crate) fn are_all_dead(servers: &[CheckedServer]) -> bool {
    !servers.is_empty() && servers.iter().all(|server| server.error.is_some())
}

/// Starts all enabled servers and shows their status. Fails if one that runs require is not ready, or none is.
pub(super) async fn live(scope: &Scope, only: Option<McpScope>, json: bool) -> Result<ExitCode, CliError> {
    let loaded = scope.server_files().load()?;
    let mut views = start_all(scope).await;
    let checked = check(&loaded, only, &views);
    let is_dead = |server: &&CheckedServer| server.required && server.error.is_some();
    let is_bad = are_all_dead(&checked) || checked.iter().any(|server| is_dead(&server));
    let code = if is_bad { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    let listed: Vec<_> = loaded.entries.servers.iter().filter(|server| is_in_scope(server, only)).collect();
    views.retain(|view| listed.iter().any(|server| server.config.name == view.name));
    let unset = listed.iter().filter_map(|server| server.expanded(&env::secret).err());
    let problems: Vec<_> = unset.map(|problem| problem.to_string()).collect();
    if json {
        let servers: Vec<_> = views.iter().map(live_entry).collect();
        print_json(&json!({ "servers": servers, "problems": problems }));
        return Ok(code);
    }
    let rows: Vec<_> = views.iter().map(live_row).collect();
    out::print(&table(&["NAME", "STATE", "LOGIN", "PID", "TOOLS", "LAST ERROR"], &rows, env::page()));
    for tool in views.iter().flat_map(|view| view.tools.iter().map(move |tool| (view, tool))) {
        let (view, tool) = tool;
        out::line(&format!("{}  is `{}` of {}", tool.exposed, tool.tool, view.name));
    }
    for (view, warning) in views.iter().flat_map(|view| view.warnings.iter().map(move |text| (view, text))) {
        out::warn(format_args!("{}: {warning}", view.name));
    }
    problems.iter().for_each(out::warn);
    for CheckedServer { name, .. } in checked.iter().filter(is_dead) {
        out::stderr_line(&format!("error: `{name}` is required, but is not ready; runs do not start"));
    }
    if are_all_dead(&checked) {
        out::stderr_line("error: no MCP server is ready");
    }
    Ok(code)
}

fn state_name(state: &ServerState) -> &'static str {
    match state {
        ServerState::Pending => "connecting",
        ServerState::Ready => "ready",
        ServerState::Failed { .. } => "failed",
        ServerState::NeedsReauth { .. } => "needs_reauth",
        ServerState::Disabled => "disabled",
        ServerState::Removing => "removing",
    }
}

fn login_name(login: LoginState) -> Option<&'static str> {
    match login {
        LoginState::None => None,
        LoginState::Ok => Some("ok"),
        LoginState::Refreshed => Some("refreshed"),
        LoginState::NeedsReauth => Some("needs_reauth"),
    }
}

fn last_error(view: &ServerView) -> Option<String> {
    Some(reason(view)).filter(|reason| !reason.is_empty()).or_else(|| view.last_error.clone())
}

fn live_row(view: &ServerView) -> Vec<String> {
    vec![
        view.name.clone(),
        state_name(&view.state).to_owned(),
        login_name(view.login).unwrap_or_default().to_owned(),
        view.pid.map(|pid| pid.to_string()).unwrap_or_default(),
        view.tools.len().to_string(),
        clip(&last_error(view).unwrap_or_default(), 200),
    ]
}

fn live_entry(view: &ServerView) -> Value {
    let tools: Vec<_> =
        view.tools.iter().map(|tool| json!({ "tool": tool.tool, "exposed": tool.exposed })).collect();
    json!({
        "name": view.name,
        "state": state_name(&view.state),
        "login": login_name(view.login),
        "pid": view.pid,
        "restarts": view.restarts,
        "tools": tools,
        "schema_tokens": view.schema_tokens,
        "last_error": last_error(view),
        "warnings": view.warnings,
    })
}
