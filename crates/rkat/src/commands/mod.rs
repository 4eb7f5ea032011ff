//! Commands, one file each.

mod approvals;
mod blob;
mod capabilities;
mod config;
mod doctor;
mod former_realms;
mod hub;
mod image;
mod mcp;
mod models;
mod realm;
mod registry;
mod run;
mod screen;
mod serve;
mod session;
mod skill;
mod usage;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;

use meerkat::operations::{Call, find};
use meerkat::{
    ConfigAccess, McpServers, NoticeSink, Realm, RealmId, RealmManifest, RunControl, Runtime, RuntimeOptions,
    SessionQuery, SessionView, ToolboxOptions, UnreadableSession,
};
use serde_json::{Value, json};

use crate::args::{Cli, Command, ScopeArgs};
use crate::env;
use crate::error::CliError;
use crate::out;
use crate::servers;

pub(crate) async fn execute(cli: Cli) -> Result<ExitCode, CliError> {
    let scope = cli.scope;
    match cli.command {
        Command::Run(args) => Box::pin(run::run(scope, *args)).await,
        Command::Session(command) => session::session(scope, command).await,
        Command::Config(command) => config::config(&scope, command).await,
        Command::Realm(command) => realm::realm(&scope, command),
        Command::Serve(args) => serve::serve(&scope, args).await,
        Command::Skill(command) => skill::skill(&scope, command).await,
        Command::Hub(args) => hub::hub(&scope, args).await,
        Command::Registry(command) => registry::registry(&scope, command).await,
        Command::Blob(command) => blob::blob(&scope, command).await,
        Command::Models { json } => models::models(&scope, json).await,
        Command::Mcp(command) => mcp::mcp(&scope, command).await,
        Command::Trust { remove: false } => mcp::trust(&scope),
        Command::Trust { remove: true } => mcp::distrust(&scope),
        Command::Image(args) => image::image(&scope, *args).await,
        Command::Usage { by, json } => usage::usage(&scope, by, json).await,
        Command::Doctor { json } => doctor::doctor(&scope, json).await,
        Command::Capabilities => {
            print_json(&json!(capabilities::capabilities(&scope).await?));
            Ok(ExitCode::SUCCESS)
        }
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut crate::command(), "rkat", &mut script);
            out::print(&String::from_utf8_lossy(&script));
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Opens the realm and creates a runtime.
fn open(args: &ScopeArgs) -> Result<Runtime, CliError> {
    open_with(args, None)
}

/// MCP servers for the agents of a run, and the sink for notices.
struct Agents {
    servers: Arc<McpServers>,
    notify: NoticeSink,
}

/// Like [`open`], for running agents.
fn open_with(args: &ScopeArgs, agents: Option<Agents>) -> Result<Runtime, CliError> {
    let (scope, unnamed) = args.scope();
    let options = scope.options(unnamed, &env::system_dirs(), "rkat")?;
    let realm = Realm::open(options)?;
    for warning in realm.warnings() {
        out::stderr_line(&format!("warning: {warning}"));
    }
    let secrets: meerkat::SecretSource = Arc::new(env::secret);
    let (servers, notify): (_, NoticeSink) = match agents {
        Some(agents) => (Some(agents.servers), agents.notify),
        None => (None, Arc::new(out::stderr_line)),
    };
    let options = RuntimeOptions {
        skills: Some(skill::skills(args)?),
        instance: scope.instance,
        secrets: Some(secrets),
        servers,
        tools: tools(args)?,
        hook_files: Some(Arc::new(servers::hook_files(args).with_notices(notify))),
        config_access: ConfigAccess::Owner,
        redactor: out::secrets(),
        ..RuntimeOptions::default()
    };
    Ok(Runtime::new(realm, options))
}

/// Returns the options of the built-in tools.
pub(crate) fn tools(args: &ScopeArgs) -> Result<ToolboxOptions, CliError> {
    let (scope, _) = args.scope();
    Ok(ToolboxOptions {
        workspace: args.context_root.clone().or_else(|| env::system_dirs().current_dir),
        home: env::home(),
        temp_dir: env::temp_dir(),
        hidden_dirs: vec![scope.state_root(&env::system_dirs())?],
        environment: env::all(),
        supervisor: env::program(),
        time_zone: env::time_zone,
    })
}

/// Opens the realm to read from it. A named realm must exist.
fn open_known(args: &ScopeArgs) -> Result<Runtime, CliError> {
    check_known(args)?;
    open(args)
}

fn check_known(args: &ScopeArgs) -> Result<(), CliError> {
    if let Some(name) = &args.realm {
        let (scope, _) = args.scope();
        RealmManifest::read(&scope.state_root(&env::system_dirs())?, &RealmId::explicit(name)?)?;
    }
    Ok(())
}

/// Opens the realm that a session locator names, or the one of the command line, to find a session in it.
fn open_for(args: ScopeArgs, realm: Option<&str>) -> Result<Runtime, CliError> {
    if realm.is_none() {
        former_realms::print_notice(&args);
    }
    open_for_with(args, realm, None)
}

/// Like [`open_for`], for running agents. Prints no notice about former realms.
fn open_for_with(
    mut args: ScopeArgs,
    realm: Option<&str>,
    agents: Option<Agents>,
) -> Result<Runtime, CliError> {
    if let Some(realm) = realm {
        args.realm = Some(realm.to_owned());
        args.isolated = false;
    }
    check_known(&args)?;
    open_with(&args, agents)
}

/// Lists the readable sessions, and prints a warning about each of the others.
async fn list_sessions(runtime: &Runtime, query: SessionQuery) -> Result<Vec<SessionView>, CliError> {
    let mut views = Vec::new();
    for entry in runtime.sessions().list_each(query).await? {
        match entry {
            Ok(view) => views.push(view),
            Err(UnreadableSession { id, error }) => {
                out::stderr_line(&format!("warning: cannot read session `{id}`: {}", error.body().message));
            }
        }
    }
    Ok(views)
}

/// Calls an operation.
async fn call(runtime: &Runtime, name: &str, arguments: Value) -> Result<Value, CliError> {
    let operation = find(name).ok_or_else(|| meerkat::Error::UnknownOperation(name.to_owned()))?;
    let call = Call { runtime: runtime.clone(), control: RunControl::default() };
    Ok(operation.call(call, arguments).await?)
}

fn print_json(value: &Value) {
    out::line(&format!("{value:#}"));
}

/// Parses `key=value` pairs.
fn pairs(texts: &[String]) -> Result<BTreeMap<String, String>, CliError> {
    let pair = |text: &String| match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(CliError::Usage(format!("`{text}` must be KEY=VALUE"))),
    };
    texts.iter().map(pair).collect()
}
