//! MCP servers of `rkat`: their config files and start options.

use std::path::PathBuf;
use std::sync::Arc;

use meerkat::mcp::ServerState;
use meerkat::{
    HookFiles, McpServers, McpServersOptions, NoticeSink, ServerEnvironment, ServerFiles, TokenDir,
};

use crate::args::ScopeArgs;
use crate::env;
use crate::error::CliError;
use crate::out;

/// Returns the MCP config files.
pub(crate) fn files(args: &ScopeArgs) -> ServerFiles {
    ServerFiles::for_dirs(project(args).as_deref(), home(args).as_deref())
}

/// Returns the hook files, which are used in addition to the realm's config.
pub(crate) fn hook_files(args: &ScopeArgs) -> HookFiles {
    let files = HookFiles::for_dirs(project(args).as_deref(), home(args).as_deref());
    files.below(env::home().as_deref())
}

/// Returns the directory of login tokens.
pub(crate) fn tokens(args: &ScopeArgs) -> Result<TokenDir, CliError> {
    let home =
        home(args).ok_or_else(|| CliError::Usage("cannot store a login: HOME is not set".to_owned()))?;
    Ok(TokenDir::new(&home))
}

/// Returns the project's root, or `None` if the current directory is unknown.
pub(crate) fn project(args: &ScopeArgs) -> Option<PathBuf> {
    args.scope().0.project(&env::system_dirs()).ok()
}

pub(crate) fn home(args: &ScopeArgs) -> Option<PathBuf> {
    args.user_config_root.clone().or_else(env::home)
}

/// Returns the options that servers are started with. Servers call `notify` from async code, so it must not block.
pub(crate) fn options(args: &ScopeArgs, notify: NoticeSink) -> McpServersOptions {
    let environment = ServerEnvironment {
        project: project(args),
        home: home(args),
        environment: env::all(),
        program: env::program(),
        redactor: out::secrets(),
    };
    McpServersOptions { notify: Some(notify), ..McpServersOptions::for_environment(environment) }
}

/// Creates the servers for runs.
pub(crate) fn servers(args: &ScopeArgs, notify: NoticeSink) -> Arc<McpServers> {
    McpServers::new(options(args, notify))
}

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
                out::stderr_line(&format!("warning: MCP server `{name}` is unavailable: {reason}{place}"));
            }
            ServerState::Pending => match &view.last_error {
                Some(error) => {
                    out::stderr_line(&format!(
                        "warning: MCP server `{name}` disconnected and is restarting: {error}{place}"
                    ));
                }
                None => connecting.push(format!("`{name}`")),
            },
            ServerState::Ready | ServerState::Disabled | ServerState::Removing => {}
        }
        for warning in &view.warnings {
            out::stderr_line(&format!("warning: MCP server `{name}`: {warning}{place}"));
        }
    }
    if !connecting.is_empty() {
        let names = connecting.join(", ");
        out::stderr_line(&format!(
            "notice: MCP servers still connecting: {names}; `--wait-for-mcp` waits for them"
        ));
    }
}
