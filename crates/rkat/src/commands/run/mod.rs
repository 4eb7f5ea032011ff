//! `rkat run`.

mod approvals;
mod display;
mod interrupt;
mod print;
mod request;
mod terminal;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use meerkat::{McpServers, RunControl, RunRequest, RunResult, Runtime, SkillKey, Target};

use super::former_realms;
use crate::args::RunArgs;
use crate::compose::{self, Agents};
use crate::error::CliError;
use crate::locate::Locator;
use crate::scope::Scope;
use crate::servers;
use display::RunDisplay;
use interrupt::interrupt_on_ctrl_c;
use terminal::TerminalPrompt;

/// Upper bound of the wait for MCP servers; each server has its own, shorter time limit.
const MCP_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// Time limit for background servers and hooks to end; their supervisors handle the rest.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) async fn run(scope: Scope, args: RunArgs) -> Result<ExitCode, CliError> {
    let display = RunDisplay::start(&args);
    let done = Box::pin(run_on(&display, scope, &args)).await;
    // Print notices before the error.
    display.flush().await;
    done
}

async fn run_on(display: &RunDisplay, mut scope: Scope, args: &RunArgs) -> Result<ExitCode, CliError> {
    let mut request = request::request(args).await?;
    let locator = args.resume.as_deref().map(Locator::parse);
    let servers = start_servers(&scope, args, display).await;
    if let Some(locator) = &locator {
        if locator.realm.is_none() && !args.quiet {
            former_realms::print_notice(&scope);
        }
        scope = scope.with_realm(locator.realm.as_deref());
        scope.check_known()?;
    }
    let agents = Agents { servers: Some(Arc::clone(&servers)), notify: display.notify() };
    let runtime = compose::open_with(&scope, agents)?;
    request.turn.skills = skill_keys(&runtime, &args.skills).await?;
    let cancel = interrupt_on_ctrl_c();
    let approver = TerminalPrompt::at_terminal(display, &cancel);
    request.control = RunControl { cancel, events: display.sink(), approver, ..RunControl::default() };
    let mut waiting = None;
    if let Some(locator) = &locator {
        let id = locator.find(&runtime).await?;
        request.target = Target::Existing(id);
        request.turn.input.approvals = approvals::parse_decisions(args, &runtime, id).await?;
        if request::is_empty(args, &request) {
            waiting = Some(approvals::waiting(&runtime, id).await?.ok_or_else(request::no_prompt)?);
        }
    }
    let done = outcome(&runtime, request, waiting).await;
    display.flush().await;
    if !args.quiet {
        servers::report_problems(&servers);
    }
    runtime.shutdown(SHUTDOWN_TIMEOUT).await;
    // Background hooks may have ended in the meantime.
    display.flush().await;
    print::result(args, &runtime, &done?, display.streams())
}

/// Starts the MCP servers, and waits for them if requested.
async fn start_servers(scope: &Scope, args: &RunArgs, display: &RunDisplay) -> Arc<McpServers> {
    let servers = McpServers::new(compose::server_options(scope, display.notify()));
    display.set_servers(&servers);
    servers.start();
    if args.wait_for_mcp {
        servers.shared().wait_until_ready(MCP_TIMEOUT).await;
    }
    servers
}

/// Returns the keys of the skills to load for the run.
async fn skill_keys(runtime: &Runtime, names: &[String]) -> Result<Vec<SkillKey>, CliError> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    runtime.refresh_skills().await?;
    let snapshot = runtime.skills().catalog().snapshot();
    let key = |name: &String| {
        let key = &snapshot.by_name(name).map_err(CliError::Skill)?.key;
        Ok(SkillKey { source_uuid: key.source_uuid.to_string(), skill_name: key.skill_name.to_string() })
    };
    names.iter().map(key).collect()
}

/// Runs to the outcome. If the session is waiting for approvals, asks about them first.
async fn outcome(
    runtime: &Runtime,
    mut request: RunRequest,
    waiting: Option<RunResult>,
) -> Result<RunResult, meerkat::Error> {
    if let Some(waiting) = waiting
        && let Some(undecided) = approvals::ask(runtime, &mut request, waiting).await?
    {
        return Ok(undecided);
    }
    runtime.sessions().run(request).await?.outcome().await
}
