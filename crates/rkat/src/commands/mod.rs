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

use meerkat::operations::{Call, find};
use meerkat::{RunControl, Runtime, SessionQuery, SessionView, UnreadableSession};
use serde_json::{Value, json};

use crate::args::{Cli, Command};
use crate::compose::open_known;
use crate::error::CliError;
use crate::out;
use crate::scope::Scope;

pub(crate) async fn execute(cli: Cli) -> Result<ExitCode, CliError> {
    let scope = cli.scope.scope();
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

/// Opens the realm that a session locator names, or the one of the command line, to find a session in it.
fn open_for(scope: &Scope, realm: Option<&str>) -> Result<Runtime, CliError> {
    if realm.is_none() {
        former_realms::print_notice(scope);
    }
    Ok(open_known(&scope.with_realm(realm))?)
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
    Ok(operation.call(call, arguments).await?.json)
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
