//! Commands, one file each.

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
mod serve;
mod session;
mod skill;
mod usage;

use std::collections::BTreeMap;
use std::process::ExitCode;

use meerkat::operations::{Call, Operation};
use meerkat::{RunControl, Runtime, SessionQuery, SessionView, UnreadableSession};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::args::{Cli, Command};
use crate::error::CliError;
use crate::out;

pub(crate) async fn execute(cli: Cli) -> Result<ExitCode, CliError> {
    let scope = cli.scope.scope();
    match cli.command {
        Command::Run(args) => return Box::pin(run::run(scope, *args)).await,
        Command::Skill(command) => return skill::skill(&scope, command).await,
        Command::Hub(args) => return hub::hub(&scope, args).await,
        Command::Registry(command) => return registry::registry(&scope, command).await,
        Command::Mcp(command) => return mcp::mcp(&scope, command).await,
        Command::Doctor { json } => return doctor::doctor(&scope, json).await,
        Command::Session(command) => session::session(&scope, command).await?,
        Command::Config(command) => config::config(&scope, command).await?,
        Command::Realm(command) => realm::realm(&scope, command)?,
        Command::Serve(args) => serve::serve(&scope, args).await?,
        Command::Blob(command) => blob::blob(&scope, command).await?,
        Command::Models { json } => models::models(&scope, json).await?,
        Command::Trust { remove: false } => mcp::trust(&scope)?,
        Command::Trust { remove: true } => mcp::distrust(&scope)?,
        Command::Image(args) => image::image(&scope, *args).await?,
        Command::Usage { by, label, json } => usage::usage(&scope, (by, label), json).await?,
        Command::Capabilities => print_json(&capabilities::capabilities(&scope).await?),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut crate::command(), "rkat", &mut script);
            out::print(&String::from_utf8_lossy(&script));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Lists the readable sessions, and prints a warning about each of the others.
async fn list_sessions(runtime: &Runtime, query: SessionQuery) -> Result<Vec<SessionView>, CliError> {
    let mut views = Vec::new();
    for entry in runtime.sessions().list_each(query).await? {
        match entry {
            Ok(view) => views.push(view),
            Err(unreadable) => warn_unreadable(&unreadable),
        }
    }
    Ok(views)
}

fn warn_unreadable(UnreadableSession { id, error }: &UnreadableSession) {
    out::warn(format_args!("cannot read session `{id}`: {}", error.body().message));
}

/// Calls an operation.
async fn call<O: Operation>(runtime: &Runtime, input: O::Input) -> Result<O::Output, meerkat::Error> {
    O::call(Call { runtime: runtime.clone(), control: RunControl::default() }, input).await
}

fn print_json(value: &impl Serialize) {
    out::line(&format!("{:#}", json!(value)));
}

/// Prints a reply as JSON, or the text in its place.
fn print_reply(reply: &impl Serialize, text: &str, json: bool) {
    if json { print_json(reply) } else { out::line(text) }
}

/// Parses `key=value` pairs.
fn pairs(texts: &[String]) -> Result<BTreeMap<String, String>, CliError> {
    let pair = |text: &String| match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(CliError::Usage(format!("`{text}` must be KEY=VALUE"))),
    };
    texts.iter().map(pair).collect()
}

/// Parses `key=value` pairs whose values are JSON or strings.
fn params(texts: &[String]) -> Result<Map<String, Value>, CliError> {
    let value = |text: String| serde_json::from_str(&text).unwrap_or(Value::String(text));
    Ok(pairs(texts)?.into_iter().map(|(key, text)| (key, value(text))).collect())
}
