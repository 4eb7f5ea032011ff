//! `rkat mcp` and `rkat trust`: the MCP servers agents can use.

mod list;
mod login;
mod probe;

use std::collections::BTreeMap;
use std::process::ExitCode;

use meerkat::mcp::config::{
    CONNECT_TIMEOUT, Endpoint, EraChoice, Scope as FileScope, ServerConfig, SourcedServer, TOOL_TIMEOUT,
    TransportConfig,
};
use meerkat::{LoadedServerFiles, ProjectTrust, ServerFiles, TokenDir, escape_line};

pub(super) use self::list::{are_all_dead, check, start_all};
use super::{pairs, print_json};
use crate::args::{AddArgs, McpCommand, McpScope, McpTransport};
use crate::env;
use crate::error::CliError;
use crate::out;
use crate::scope::Scope;

pub(super) async fn mcp(scope: &Scope, command: McpCommand) -> Result<ExitCode, CliError> {
    let files = scope.server_files();
    match command {
        McpCommand::Login(args) => return Box::pin(login::login(scope, args)).await,
        McpCommand::Test { name, json } => return probe::test(scope, &name, json).await,
        McpCommand::Add(args) => add(&files, *args)?,
        McpCommand::List { live: false, scope: only, json } => list::list(scope, only, json).await?,
        McpCommand::List { live: true, scope: only, json } => return list::live(scope, only, json).await,
        McpCommand::Get { name, scope: only, json } => get(&files, &name, only, json)?,
        McpCommand::Remove { name, scope } => remove(&files, &name, scope)?,
        McpCommand::Logout { name } => login::logout(scope, &name).await?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the directory of login tokens.
fn tokens(scope: &Scope) -> Result<TokenDir, CliError> {
    let home =
        scope.home().ok_or_else(|| CliError::Usage("cannot store a login: HOME is not set".to_owned()))?;
    Ok(TokenDir::new(&home))
}

/// Trusts the project: its skills, and the current content of its MCP config and hook files.
pub(super) fn trust(scope: &Scope) -> Result<(), CliError> {
    let files = scope.server_files();
    if let Some(path) = files.trust_project()? {
        out::line(&format!("trusted {path}; run `rkat trust` again after editing it"));
    }
    if let Some(path) = scope.hook_files().trust_project()? {
        out::line(&format!("trusted {path} and its hooks; run `rkat trust` again after editing it"));
    }
    let dir = files.trust_dir()?;
    out::line(&format!("trusted {dir}: its skills are no longer marked"));
    Ok(())
}

/// Revokes trust in the project.
pub(super) fn distrust(scope: &Scope) -> Result<(), CliError> {
    let mut revoked = scope.server_files().distrust()?;
    revoked.extend(scope.hook_files().distrust_project()?);
    for path in &revoked {
        out::line(&format!("{path} is no longer trusted"));
    }
    if revoked.is_empty() {
        out::stderr_line("nothing to revoke");
    }
    Ok(())
}

fn add(files: &ServerFiles, args: AddArgs) -> Result<(), CliError> {
    let scope = config_scope(args.scope);
    let server = new_server(args)?;
    let path = files.path(scope)?.display().to_string();
    let trust = files.add(scope, &server)?;
    out::line(&format!("added {} to {path}", server.name));
    if trust == ProjectTrust::Untrusted {
        out::stderr_line(
            "notice: the file has other servers that are not trusted; review it, then run `rkat trust`",
        );
    }
    Ok(())
}

fn config_scope(scope: McpScope) -> FileScope {
    match scope {
        McpScope::Project => FileScope::Project,
        McpScope::User => FileScope::User,
    }
}

fn new_server(args: AddArgs) -> Result<ServerConfig, CliError> {
    let usage = |message: &str| CliError::Usage(message.to_owned());
    let headers = || header_pairs(&args.headers);
    let transport = match (args.url, args.command.as_slice(), args.transport) {
        (Some(_), [_, ..], _) => return Err(usage("pass either `--url` or a command after `--`, not both")),
        (None, [], _) => return Err(usage("pass `--url URL`, or a command after `--`")),
        (Some(_), [], Some(McpTransport::Stdio)) => return Err(usage("`stdio` needs a command after `--`")),
        (Some(_), ..) if !args.env.is_empty() => return Err(usage("`-e` is for servers with a command")),
        (Some(url), [], Some(McpTransport::Sse)) => {
            TransportConfig::Sse(Endpoint { url, headers: headers()? })
        }
        (Some(url), [], Some(McpTransport::Http)) => {
            TransportConfig::Http(Endpoint { url, headers: headers()? })
        }
        (Some(url), [], None) => TransportConfig::Url(Endpoint { url, headers: headers()? }),
        (None, [..], Some(McpTransport::Http | McpTransport::Sse)) => {
            return Err(usage("this transport needs `--url`"));
        }
        (None, [..], _) if !args.headers.is_empty() => return Err(usage("`-H` is for servers with `--url`")),
        (None, [command, rest @ ..], _) => {
            TransportConfig::Stdio { command: command.clone(), args: rest.to_vec(), env: pairs(&args.env)? }
        }
    };
    let server = ServerConfig {
        name: args.name,
        transport,
        connect_timeout: CONNECT_TIMEOUT,
        tool_timeout: TOOL_TIMEOUT,
        required: false,
        enabled: true,
        era: EraChoice::Auto,
        allow: Vec::new(),
        deny: Vec::new(),
    };
    server.checked().map_err(|error| CliError::Usage(error.to_string()))
}

fn header_pairs(texts: &[String]) -> Result<BTreeMap<String, String>, CliError> {
    let pair = |text: &String| match text.split_once(':') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
        _ => Err(CliError::Usage("a header must be NAME:VALUE".to_owned())),
    };
    texts.iter().map(pair).collect()
}

/// Finds the entry in effect, or the one of a file, and whether the project's file is trusted.
fn find(
    files: &ServerFiles,
    name: &str,
    only: Option<McpScope>,
) -> Result<(SourcedServer, ProjectTrust), CliError> {
    let LoadedServerFiles { entries, trust } = files.load()?;
    let fits = |server: &SourcedServer| {
        server.config.name == name && only.is_none_or(|only| config_scope(only) == server.scope)
    };
    let mut matches: Vec<_> = entries.servers.into_iter().chain(entries.shadowed).filter(fits).collect();
    // An untrusted entry shadows nothing.
    matches.sort_by_key(|server| server.scope == FileScope::Project && trust != ProjectTrust::Trusted);
    if let Some(server) = matches.into_iter().next() {
        return Ok((server, trust));
    }
    let problem = entries.problems.into_iter().find(|problem| problem.server.as_deref() == Some(name));
    Err(CliError::Usage(match problem {
        Some(problem) => problem.to_string(),
        None => format!("no MCP server named `{name}`; run `rkat mcp list` to see all servers"),
    }))
}

/// Finds an entry that may be started, and expands its variables. Trust is checked against the text that was read.
fn find_startable(files: &ServerFiles, name: &str) -> Result<(SourcedServer, ServerConfig), CliError> {
    let (server, trust) = find(files, name, None)?;
    if server.scope == FileScope::Project && trust != ProjectTrust::Trusted {
        let message = format!("{} is not trusted; review it, then run `rkat trust`", server.file);
        return Err(CliError::Usage(message));
    }
    let config = server.expanded(&env::secret).map_err(|problem| CliError::Usage(problem.to_string()))?;
    Ok((server, config))
}

fn get(files: &ServerFiles, name: &str, only: Option<McpScope>, json: bool) -> Result<(), CliError> {
    let (server, trust) = find(files, name, only)?;
    let entry = list::entry_json(&server, trust);
    if json {
        print_json(&entry);
    } else {
        for (key, value) in entry.as_object().into_iter().flatten() {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            out::line(&format!("{key}: {}", escape_line(&text)));
        }
    }
    Ok(())
}

fn remove(files: &ServerFiles, name: &str, scope: Option<McpScope>) -> Result<(), CliError> {
    let scope = match scope {
        Some(scope) => config_scope(scope),
        None => {
            let shadowed = files.load()?.entries.shadowed;
            if shadowed.iter().any(|server| server.config.name == name) {
                let message = format!("`{name}` is in both files; pass `--scope project` or `--scope user`");
                return Err(CliError::Usage(message));
            }
            find(files, name, None)?.0.scope
        }
    };
    let path = files.path(scope)?.display().to_string();
    if !files.remove(scope, name)? {
        return Err(CliError::Usage(format!("no MCP server named `{name}` in {path}")));
    }
    out::line(&format!("removed {name} from {path}"));
    Ok(())
}
