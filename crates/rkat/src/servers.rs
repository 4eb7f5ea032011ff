//! The MCP servers of this program: where their files are, and how they are started.

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

/// Where the files of servers are.
pub(crate) fn files(args: &ScopeArgs) -> ServerFiles {
    ServerFiles::of(project(args).as_deref(), home(args).as_deref())
}

/// Where hooks are besides the realm's config.
pub(crate) fn hook_files(args: &ScopeArgs) -> HookFiles {
    let files = HookFiles::of(project(args).as_deref(), home(args).as_deref());
    files.below(env::home().as_deref())
}

/// Where the tokens of logins are.
pub(crate) fn tokens(args: &ScopeArgs) -> Result<TokenFolder, CliError> {
    let home = home(args)
        .ok_or_else(|| CliError::Usage("there is no place to keep a login: HOME is not set".to_owned()))?;
    Ok(TokenFolder::of(&home))
}

/// Returns the project's root, or `None` if the current directory is unknown.
pub(crate) fn project(args: &ScopeArgs) -> Option<PathBuf> {
    args.scope().0.project(&env::surroundings()).ok()
}

pub(crate) fn home(args: &ScopeArgs) -> Option<PathBuf> {
    args.user_config_root.clone().or_else(env::home)
}

/// What servers are run with here. They call `notify` from async code, so what takes notices of a run must not block.
pub(crate) fn options(args: &ScopeArgs, notify: Notify) -> McpServersOptions {
    let around = ServerSurroundings {
        project: project(args),
        home: home(args),
        environment: env::all(),
        program: env::program(),
        redactor: out::secrets(),
    };
    McpServersOptions { notify: Some(notify), ..McpServersOptions::of(around) }
}

/// The servers of this program's runs.
pub(crate) fn servers(args: &ScopeArgs, notify: Notify) -> Arc<McpServers> {
    McpServers::new(options(args, notify))
}

/// Says what is wrong with servers: which are not there and why, and what they offer that cannot be used.
/// Says where the server of a tool is written, in parentheses; nothing for tools of nobody's.
pub(crate) fn place_of_tool(servers: &McpServers, tool: &str) -> String {
    let views = servers.shared().views();
    let owner = views.iter().find(|view| view.tools.iter().any(|name| name.exposed == tool));
    let place = owner.and_then(|view| servers.place(&view.name));
    place.map(|place| format!(" ({place})")).unwrap_or_default()
}

pub(crate) fn tell_faults(servers: &McpServers) {
    let mut connecting = Vec::new();
    for view in servers.shared().views() {
        let place = servers.place(&view.name).map(|place| format!(" ({place})")).unwrap_or_default();
        let name = &view.name;
        match &view.state {
            ServerState::Failed { reason } | ServerState::NeedsReauth { reason } => {
                out::say(&format!("warning: the MCP server `{name}` is not there: {reason}{place}"));
            }
            ServerState::Pending => match &view.last_error {
                Some(error) => {
                    out::say(&format!(
                        "warning: the MCP server `{name}` was lost and is restarting: {error}{place}"
                    ));
                }
                None => connecting.push(format!("`{name}`")),
            },
            ServerState::Ready | ServerState::Disabled | ServerState::Removing => {}
        }
        for warning in &view.warnings {
            out::say(&format!("warning: the MCP server `{name}`: {warning}{place}"));
        }
    }
    if !connecting.is_empty() {
        let names = connecting.join(", ");
        out::say(&format!("notice: MCP servers still connecting: {names}; `--wait-for-mcp` waits for them"));
    }
}
