//! Reports about the MCP servers of a run.

use meerkat::McpServers;
use meerkat::mcp::ServerState;

use crate::out;

/// Returns the config location of a tool's server in parentheses, or an empty string if no server has the tool.
pub(crate) fn tool_location(servers: &McpServers, tool: &str) -> String {
    let views = servers.shared().views();
    let owner = views.iter().find(|view| view.tools.iter().any(|name| name.exposed == tool));
    let place = owner.and_then(|view| servers.entry_location(&view.name));
    place.map(|place| format!(" ({place})")).unwrap_or_default()
}

/// Reports problems of servers: which ones are unavailable and why, and which of their tools cannot be used.
pub(crate) fn report_problems(servers: &McpServers) {
    let mut connecting = Vec::new();
    for view in servers.shared().views() {
        let place = servers.entry_location(&view.name).map(|place| format!(" ({place})")).unwrap_or_default();
        let name = &view.name;
        match &view.state {
            ServerState::Failed { reason } | ServerState::NeedsReauth { reason } => {
                out::warn(format_args!("MCP server `{name}` is unavailable: {reason}{place}"));
            }
            ServerState::Pending => match &view.last_error {
                Some(error) => {
                    let state = "disconnected and is restarting";
                    out::warn(format_args!("MCP server `{name}` {state}: {error}{place}"));
                }
                None => connecting.push(format!("`{name}`")),
            },
            ServerState::Ready | ServerState::Disabled | ServerState::Removing => {}
        }
        for warning in &view.warnings {
            out::warn(format_args!("MCP server `{name}`: {warning}{place}"));
        }
    }
    if !connecting.is_empty() {
        let names = connecting.join(", ");
        out::stderr_line(&format!(
            "notice: MCP servers still connecting: {names}; `--wait-for-mcp` waits for them"
        ));
    }
}
