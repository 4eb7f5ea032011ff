//! `rkat run`.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use meerkat::{
    BudgetLimits, Completion, Content, McpServers, NewSessionOptions, Outcome, OutputSchema, Pending,
    RunControl, RunInput, RunReport, RunResult, Runtime, SessionId, SessionRef, SkillKey, TerminalCause,
    ToolCall, ToolOverlay, TurnOptions,
};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::approvals::{self, TerminalPrompt};
use super::screen::RunDisplay;
use super::{former_realms, pairs, print_json};
use crate::args::{Output, RunArgs, ToolPreset};
use crate::compose::{self, Agents};
use crate::env;
use crate::error::CliError;
use crate::locate::{Locator, is_clearly_reference};
use crate::out;
use crate::render::clip;
use crate::scope::Scope;
use crate::servers;
use crate::stdin::{self, Need};

/// Upper bound of the wait for MCP servers; each server has its own, shorter time limit.
const MCP_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// Time limit for background servers and hooks to end; their supervisors handle the rest.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) async fn run(scope: Scope, args: RunArgs) -> Result<ExitCode, CliError> {
    let screen = RunDisplay::start(&args);
    let done = Box::pin(run_on(&screen, scope, args)).await;
    // Print notices before the error.
    screen.flush().await;
    done
}

async fn run_on(screen: &RunDisplay, scope: Scope, args: RunArgs) -> Result<ExitCode, CliError> {
    let prompt = prompt(&args).await?;
    let mut turn = turn(&args, prompt.clone().unwrap_or_default())?;
    let locator = args.resume.as_deref().map(Locator::parse);
    let servers = start_servers(&scope, &args, screen).await;
    let agents = Agents { servers: Some(Arc::clone(&servers)), notify: screen.notify() };
    let runtime = match &locator {
        Some(locator) => {
            if locator.realm.is_none() && !args.quiet {
                former_realms::print_notice(&scope);
            }
            let scope = scope.with_realm(locator.realm.as_deref());
            scope.check_known()?;
            compose::open_with(&scope, agents)?
        }
        None => compose::open_with(&scope, agents)?,
    };
    turn.skills = skill_keys(&runtime, &args.skills).await?;
    let control =
        RunControl { cancel: interrupt_on_ctrl_c(), events: screen.sink(), ..RunControl::default() };
    let has_model = turn.model.is_some();
    let further = TurnOptions { skills: Vec::new(), ..turn.clone() };
    let first = match &locator {
        Some(locator) => {
            let id = locator.find(&runtime).await?;
            turn.input.approvals = approvals::parse_decisions(&args, &runtime, id).await?;
            match prompt {
                Some(_) => runtime.sessions().start_turn(id, turn, control.clone()).await,
                None => Ok(waiting(&runtime, id).await?),
            }
        }
        None => {
            let options = NewSessionOptions { labels: pairs(&args.labels)? };
            runtime.sessions().create(options, turn, control.clone()).await
        }
    };
    let done = run_with_approvals(first, &runtime, further, (&control, screen)).await;
    screen.flush().await;
    if !args.quiet {
        servers::report_problems(&servers);
    }
    runtime.shutdown(SHUTDOWN_TIMEOUT).await;
    // Background hooks may have ended in the meantime.
    screen.flush().await;
    let result = done?;
    for warning in &result.warnings {
        out::stderr_line(&format!("warning: {warning}"));
    }
    if result.model == "offline" && !has_model && locator.is_none() && !args.quiet {
        out::note("no API key configured; using the offline model");
    }
    match args.output() {
        Output::Json => print_json(&as_json(&runtime, &result)),
        Output::Text => print_text(&args, &result, screen.streams())?,
    }
    if !args.quiet {
        summary(&result);
    }
    Ok(exit_code(&result))
}

/// Returns the pending calls of a session, as if the run that made them had ended now.
async fn waiting(runtime: &Runtime, id: SessionId) -> Result<RunResult, CliError> {
    let pending = runtime.sessions().pending_calls(id).await?;
    if pending == Pending::default() {
        return Err(no_prompt());
    }
    let view = runtime.sessions().read(id).await?;
    let cost = Some(view.cost).filter(|cost| !cost.is_zero());
    let report =
        RunReport { outcome: Outcome::Pending(pending), steps: 0, tool_calls: 0, usage: view.usage, cost };
    let (warnings, schema_warnings) = (Vec::new(), Vec::new());
    Ok(RunResult { session_id: id, model: view.model, warnings, schema_warnings, report })
}

/// Asks the user at the terminal about calls awaiting approval, and resumes with the answers.
async fn run_with_approvals(
    mut done: Result<RunResult, meerkat::Error>,
    runtime: &Runtime,
    turn: TurnOptions,
    (control, screen): (&RunControl, &RunDisplay),
) -> Result<RunResult, meerkat::Error> {
    let Some(mut asker) = TerminalPrompt::at_terminal(control.cancel.clone()) else { return done };
    screen.flush().await;
    while let Ok(result) = &done
        && let Some(input) = asker.ask(result).await
    {
        let next = TurnOptions { input, ..turn.clone() };
        done = runtime.sessions().start_turn(result.session_id, next, control.clone()).await;
        screen.flush().await;
    }
    match done {
        // Interrupting a question interrupts the run.
        Ok(result)
            if control.cancel.is_cancelled() && matches!(result.report.outcome, Outcome::Pending(_)) =>
        {
            let reference = runtime.reference(result.session_id);
            let session = SessionRef { id: result.session_id, reference, created: false, resumable: true };
            Err(meerkat::Error::Cancelled { session })
        }
        done => done,
    }
}

/// Starts the MCP servers, and waits for them if requested.
async fn start_servers(scope: &Scope, args: &RunArgs, screen: &RunDisplay) -> Arc<McpServers> {
    let servers = McpServers::new(compose::server_options(scope, screen.notify()));
    screen.set_servers(&servers);
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

/// Returns the prompt: empty if calls are decided on the command line, `None` if a session is resumed without a prompt.
async fn prompt(args: &RunArgs) -> Result<Option<String>, CliError> {
    match args.prompt.as_deref() {
        None if approvals::has_decisions(args) => Ok(Some(String::new())),
        Some(word) if is_clearly_reference(word) => Err(CliError::Usage(format!(
            "`{word}` is a session, not a prompt; resume the session with `--resume {word} \"…\"`"
        ))),
        Some(prompt) if prompt != "-" => with_stdin(prompt, args).await.map(Some),
        None if args.resume.is_some() && (args.no_stdin || !env::stdin_kind().is_readable()) => Ok(None),
        _ if args.no_stdin || env::stdin_is_terminal() => Err(no_prompt()),
        source => {
            let text = stdin::read(Need::Prompt).await?.unwrap_or_default();
            let is_missing = source.is_none() && args.resume.is_some() && text.trim().is_empty();
            Ok((!is_missing).then_some(text))
        }
    }
}

fn no_prompt() -> CliError {
    CliError::Usage("no prompt; pass one as an argument or on stdin".to_owned())
}

/// Appends piped input to a prompt.
async fn with_stdin(prompt: &str, args: &RunArgs) -> Result<String, CliError> {
    let input = match (args.stdin, args.no_stdin) {
        (_, true) => None,
        (true, _) => stdin::read(Need::Required).await?,
        _ => stdin::read(Need::Optional).await?,
    };
    let input = input.as_deref().map(str::trim_end).filter(|input| !input.is_empty());
    Ok(input.map_or_else(|| prompt.to_owned(), |input| format!("{prompt}\n\n<stdin>\n{input}\n</stdin>")))
}

fn turn(args: &RunArgs, prompt: String) -> Result<TurnOptions, CliError> {
    let instructions = (!args.instructions.is_empty()).then(|| args.instructions.clone());
    Ok(TurnOptions {
        input: RunInput { prompt: Content::text(prompt), ..RunInput::default() },
        model: args.model.clone(),
        provider: args.provider,
        system_prompt: args.system.clone(),
        instructions,
        max_tokens: args.max_tokens,
        provider_params: params(args)?,
        builtins: args.tools.map(ToolPreset::builtins),
        files: args.tools.and_then(ToolPreset::files),
        memory: args.tools.and_then(ToolPreset::memory),
        shell: args.tools.map(ToolPreset::shell),
        approvals: args.approvals,
        output_schema: args.schema.as_deref().map(schema).transpose()?,
        overlay: ToolOverlay {
            allowed: (!args.allow_tool.is_empty()).then(|| args.allow_tool.clone()),
            blocked: args.block_tool.clone(),
        },
        budget: BudgetLimits {
            max_tokens: args.max_total_tokens,
            max_duration_secs: args.max_duration.map(|span| span.0.as_secs().max(1)),
            max_tool_calls: args.max_tool_calls,
            max_cost_usd: args.max_cost,
        },
        ..TurnOptions::default()
    })
}

fn params(args: &RunArgs) -> Result<Option<Map<String, Value>>, CliError> {
    let mut params: Map<String, Value> = match &args.params_json {
        None => Map::new(),
        Some(text) => serde_json::from_str(text)
            .map_err(|error| CliError::Usage(format!("`--params-json` must be a JSON object: {error}")))?,
    };
    if args.no_web_search {
        for key in ["web_search", "google_search"] {
            params.insert(key.to_owned(), Value::Bool(false));
        }
    }
    for (key, text) in pairs(&args.params)? {
        params.insert(key, serde_json::from_str(&text).unwrap_or(Value::String(text)));
    }
    Ok((!params.is_empty()).then_some(params))
}

fn schema(text: &str) -> Result<OutputSchema, CliError> {
    let source = if text.trim_start().starts_with('{') {
        text.to_owned()
    } else {
        std::fs::read_to_string(text)
            .map_err(|error| CliError::Io(format!("cannot read the schema `{text}`"), error))?
    };
    let value = serde_json::from_str(&source)
        .map_err(|error| CliError::Usage(format!("`--schema` must be a JSON Schema: {error}")))?;
    Ok(OutputSchema::parse(value).map_err(meerkat::Error::from)?)
}

/// Interrupts the run at the first Ctrl-C or termination signal; the second one exits immediately.
fn interrupt_on_ctrl_c() -> CancellationToken {
    let cancel = CancellationToken::new();
    let token = cancel.clone();
    tokio::spawn(async move {
        shutdown_signal().await;
        out::note("interrupting; press Ctrl-C again to exit immediately");
        token.cancel();
        shutdown_signal().await;
        std::process::exit(130);
    });
    cancel
}

/// Waits for Ctrl-C or SIGTERM. SIGHUP keeps its default effect.
async fn shutdown_signal() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}

fn print_text(args: &RunArgs, result: &RunResult, streamed: bool) -> Result<(), CliError> {
    match &result.report.outcome {
        Outcome::Completed(done) if args.schema.is_some() => print_structured(done),
        Outcome::Completed(done) => {
            if !streamed && !done.text.is_empty() {
                out::line(&done.text);
            }
            Ok(())
        }
        Outcome::Pending(pending) => {
            print_pending(pending, result.session_id);
            Ok(())
        }
        Outcome::Failed(_) | Outcome::Cancelled => Ok(()),
    }
}

fn print_pending(pending: &Pending, session: SessionId) {
    for call in &pending.calls {
        out::line(&call_json(call).to_string());
    }
    for awaited in &pending.approvals {
        out::line(&approvals::approval_json(awaited).to_string());
    }
    if !pending.calls.is_empty() {
        out::note("the session is waiting for tool results; send them with meerkat_resume");
    }
    if !pending.approvals.is_empty() {
        out::note(&approvals::resume_hint(session));
    }
}

fn call_json(call: &ToolCall) -> Value {
    json!({ "tool_use_id": call.id, "tool_name": call.name, "args": call.args })
}

fn print_structured(done: &Completion) -> Result<(), CliError> {
    if let Some(value) = &done.structured_output {
        print_json(value);
        return Ok(());
    }
    let reason = done.extraction_error.as_ref().map_or_else(
        || "the run ended before producing one".to_owned(),
        |error| {
            format!(
                "{} (after {} attempts; last output: {})",
                error.reason,
                error.attempts,
                clip(&error.last_output, 200)
            )
        },
    );
    Err(meerkat::Error::NoStructuredOutput(reason).into())
}

fn as_json(runtime: &Runtime, result: &RunResult) -> Value {
    let reference = runtime.reference(result.session_id);
    let report = &result.report;
    match &report.outcome {
        Outcome::Pending(pending) => {
            let calls: Vec<_> = pending.calls.iter().map(call_json).collect();
            let awaited: Vec<_> = pending.approvals.iter().map(approvals::approval_json).collect();
            json!({
                "status": if awaited.is_empty() { "pending_tool_call" } else { "pending_approval" },
                "session_id": result.session_id,
                "session_ref": reference,
                "resumable": true,
                "pending_tool_calls": calls,
                "pending_approvals": awaited,
                "model": result.model,
                "usage": report.usage,
                "cost_usd": report.cost,
            })
        }
        Outcome::Completed(done) => json!({
            "text": done.text,
            "session_id": result.session_id,
            "session_ref": reference,
            "turns": report.steps,
            "tool_calls": report.tool_calls,
            "usage": report.usage,
            "cost_usd": report.cost,
            "structured_output": done.structured_output,
            "extraction_error": done.extraction_error,
            "schema_warnings": (!result.schema_warnings.is_empty()).then_some(&result.schema_warnings),
            "model": result.model,
            "terminal_cause_kind": done.cause,
        }),
        Outcome::Failed(_) | Outcome::Cancelled => Value::Null,
    }
}

fn summary(result: &RunResult) {
    let report = &result.report;
    let count = |number: u32, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
    let cost = report.cost.map(|cost| format!(" · {cost}")).unwrap_or_default();
    out::note(&format!(
        "session {} · {} · {} · {} tokens{cost} · {}",
        result.session_id,
        count(report.steps, "step"),
        count(report.tool_calls, "tool call"),
        report.usage.total(),
        result.model,
    ));
    match limit_reached(result) {
        Some(TerminalCause::TurnLimitReached) => out::note("the run reached `agent.max_turns`"),
        Some(_) => out::note("the run's budget is exhausted"),
        None => {}
    }
}

/// Returns the limit that ended the run, if one did.
fn limit_reached(result: &RunResult) -> Option<TerminalCause> {
    match &result.report.outcome {
        Outcome::Completed(done) => done.cause,
        _ => None,
    }
}

/// Returns the exit code. A run with a call awaiting approval has not succeeded.
fn exit_code(result: &RunResult) -> ExitCode {
    match &result.report.outcome {
        Outcome::Pending(pending) if !pending.approvals.is_empty() => ExitCode::FAILURE,
        _ if limit_reached(result).is_some() => ExitCode::from(2),
        _ => ExitCode::SUCCESS,
    }
}
