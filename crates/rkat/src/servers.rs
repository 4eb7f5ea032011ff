//! MCP servers of `rkat`: their config files and start options.

use std::path::PathBuf;
use std::sync::Arc;

use meerkat::mcp::ServerState;
use meerkat::{
    HookFiles, McpServers, McpServersOptions, Notify, ServerFiles, ServerSurroundings, TokenFolder,
};

use crate::args::ScopeArgs;
use crate::env;
use crate::error::CliError;
use crate::out;

/// Returns the MCP config files.
pub(crate) fn files(args: &ScopeArgs) -> ServerFiles {
    ServerFiles::of(project(args).as_deref(), home(args).as_deref())
}

/// Returns the hook files, which are used in addition to the realm's config.
pub(crate) fn hook_files(args: &ScopeArgs) -> HookFiles {
    let files = HookFiles::of(project(args).as_deref(), home(args).as_deref());
    files.below(env::home().as_deref())
}

/// Returns the directory of login tokens.
pub(crate) fn tokens(args: &ScopeArgs) -> Result<TokenFolder, CliError> {
    let home =
        home(args).ok_or_else(|| CliError::Usage("cannot store a login: HOME is not set".to_owned()))?;
    Ok(TokenFolder::of(&home))
}

/// Returns the project's root, or `None` if the current directory is unknown.
pub(crate) fn project(args: &ScopeArgs) -> Option<PathBuf> {
    args.scope().0.project(&env::surroundings()).ok()
}

pub(crate) fn home(args: &ScopeArgs) -> Option<PathBuf> {
    args.user_config_root.clone().or_else(env::home)
}

/// Returns the options that servers are started with. Servers call `notify` from async code, so it must not block.
pub(crate) fn options(args: &ScopeArgs, notify: Notify) -> McpServersOptions {
    let environment = ServerSurroundings {
        project: project(args),
        home: home(args),
        environment: env::all(),
        program: env::program(),
        redactor: out::secrets(),
    };
    McpServersOptions { notify: Some(notify), ..McpServersOptions::of(environment) }
}

/// Creates the servers for runs.
pub(crate) fn servers(args: &ScopeArgs, notify: Notify) -> Arc<McpServers> {
    McpServers::new(options(args, notify))
}

/// Returns the config location of a tool's server in parentheses, or an empty string if no server has the tool.
pub(crate) fn place_of_tool(servers: &McpServers, tool: &str) -> String {
    let views = servers.shared().views();
    let owner = views.iter().find(|view| view.tools.iter().any(|name| name.exposed == tool));
    let place = owner.and_then(|view| servers.place(&view.name));
    place.map(|place| format!(" ({place})")).unwrap_or_default()
}

/// Reports problems of servers: which ones are unavailable and why, and which of their tools cannot be used.
pub(crate) fn tell_faults(servers: &McpServers) {
    let mut connecting = Vec::new();
    for view in servers.shared().views() {
        let place = servers.place(&view.name).map(|place| format!(" ({place})")).unwrap_or_default();
        let name = &view.name;
        match &view.state {
            ServerState::Failed { reason } | ServerState::NeedsReauth { reason } => {
                out::say(&format!("warning: MCP server `{name}` is unavailable: {reason}{place}"));
            }
            ServerState::Pending => match &view.last_error {
                Some(error) => {
                    out::say(&format!(
                        "warning: MCP server `{name}` disconnected and is restarting: {error}{place}"
                    ));
                }
                None => connecting.push(format!("`{name}`")),
            },
            ServerState::Ready | ServerState::Disabled | ServerState::Removing => {}
        }
        for warning in &view.warnings {
            out::say(&format!("warning: MCP server `{name}`: {warning}{place}"));
        }
    }
    if !connecting.is_empty() {
        let names = connecting.join(", ");
        out::say(&format!("notice: MCP servers still connecting: {names}; `--wait-for-mcp` waits for them"));
    }
}
