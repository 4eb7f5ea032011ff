//! `rkat run`.

use std::io::Read as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use meerkat::{
    AgentEvent, BudgetLimits, BudgetType, Completion, Content, EventEnvelope, EventSink, McpServers,
    NewSessionOptions, Outcome, OutputSchema, Pending, Programs, RunControl, RunInput, RunResult, Runtime,
    SessionId, SessionRef, SkillKey, TerminalCause, ToolCall, ToolOverlay, TurnOptions,
};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::approvals::{self, Asker};
use super::{open_for_with, open_with, pairs, print_json};
use crate::args::{Output, RunArgs, ScopeArgs, ToolPreset};
use crate::env;
use crate::error::CliError;
use crate::locate::Locator;
use crate::out;
use crate::render::clip;
use crate::servers;

/// How long a run waits for servers that it waits for; each has its own time limit, which is shorter.
const MCP_PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// How long servers and hooks in the background may take to end; those who watch them see to the rest.
const ENDING: Duration = Duration::from_secs(10);

/// What a change of tools is about when one could not be offered to the model.
const LEFT_OUT: &str = "tool_scope";

/// The longest prompt that is read from stdin.
const MAX_STDIN: u64 = 64 * 1024 * 1024;

pub(super) async fn run(scope: ScopeArgs, args: RunArgs) -> Result<ExitCode, CliError> {
    let prompt = prompt(&args)?;
    let mut turn = turn(&args, prompt)?;
    let locator = args.resume.as_deref().map(Locator::parse);
    let servers = start_servers(&scope, &args).await;
    let given = Some(Arc::clone(&servers));
    let runtime = match &locator {
        Some(locator) => open_for_with(scope, locator.realm.as_deref(), given)?,
        None => open_with(&scope, given)?,
    };
    turn.skills = skill_keys(&runtime, &args.skills).await?;
    let screen = Screen::new(&args);
    let control =
        RunControl { cancel: interrupt_on_ctrl_c(), events: screen.sink(&servers), ..RunControl::default() };
    let named = turn.model.is_some();
    let further = TurnOptions { skills: Vec::new(), ..turn.clone() };
    let first = match &locator {
        Some(locator) => {
            let id = locator.find(&runtime).await?;
            turn.input.approvals = approvals::decided(&args, &runtime, id).await?;
            runtime.sessions().start_turn(id, turn, control.clone()).await
        }
        None => {
            let options = NewSessionOptions { labels: pairs(&args.labels)? };
            runtime.sessions().create(options, turn, control.clone()).await
        }
    };
    let done = through_approvals(first, &runtime, further, &control).await;
    let streamed = screen.finish();
    if !args.quiet {
        servers::tell_faults(&servers);
    }
    runtime.shutdown(ENDING).await;
    let result = done?;
    for warning in &result.warnings {
        out::say(&format!("warning: {warning}"));
    }
    if result.model == "offline" && !named && locator.is_none() && !args.quiet {
        note("no API key is configured: the offline model answers");
    }
    match args.output() {
        Output::Json => print_json(&as_json(&runtime, &result)),
        Output::Text => print_text(&args, &result, streamed)?,
    }
    if !args.quiet {
        summary(&result);
    }
    Ok(exit_code(&result))
}

/// Asks the person at the terminal about calls that need an approval, and goes on with the answers.
async fn through_approvals(
    mut done: Result<RunResult, meerkat::Error>,
    runtime: &Runtime,
    turn: TurnOptions,
    control: &RunControl,
) -> Result<RunResult, meerkat::Error> {
    let Some(mut asker) = Asker::at_terminal(control.cancel.clone()) else { return done };
    while let Ok(result) = &done
        && let Some(input) = asker.ask(result).await
    {
        let next = TurnOptions { input, ..turn.clone() };
        done = runtime.sessions().start_turn(result.session_id, next, control.clone()).await;
    }
    match done {
        // Who interrupts a question interrupts the run.
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

/// Starts the MCP servers, and waits for them if that is wanted.
async fn start_servers(scope: &ScopeArgs, args: &RunArgs) -> Arc<McpServers> {
    let servers = servers::servers(scope, Programs::Allowed);
    servers.start();
    if args.wait_for_mcp {
        servers.shared().wait(MCP_PATIENCE).await;
    }
    servers
}

/// Finds the skills that the run is to have.
async fn skill_keys(runtime: &Runtime, names: &[String]) -> Result<Vec<SkillKey>, CliError> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    runtime.settle_skills().await?;
    let snapshot = runtime.skills().catalogue().snapshot();
    let key = |name: &String| {
        let key = &snapshot.by_name(name).map_err(CliError::Skill)?.key;
        Ok(SkillKey { source_uuid: key.source_uuid.to_string(), skill_name: key.skill_name.to_string() })
    };
    names.iter().map(key).collect()
}

/// Returns the prompt, reading stdin only when asked to.
fn prompt(args: &RunArgs) -> Result<String, CliError> {
    if args.prompt.is_none() && approvals::are_decided(args) {
        return Ok(String::new());
    }
    let from_stdin = matches!(args.prompt.as_deref(), None | Some("-"));
    if from_stdin && env::stdin_is_terminal() {
        return Err(CliError::Usage("there is no prompt: write `rkat run \"…\"`, or pipe it in".to_owned()));
    }
    if !from_stdin && !args.stdin {
        return Ok(args.prompt.clone().unwrap_or_default());
    }
    let mut input = String::new();
    std::io::stdin()
        .take(MAX_STDIN)
        .read_to_string(&mut input)
        .map_err(|error| CliError::Io("the prompt cannot be read from stdin".to_owned(), error))?;
    match args.prompt.as_deref() {
        None | Some("-") => Ok(input),
        Some(prompt) => Ok(format!("<stdin>\n{}\n</stdin>\n\n{prompt}", input.trim_end())),
    }
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
            .map_err(|error| CliError::Io(format!("the schema `{text}` cannot be read"), error))?
    };
    let value = serde_json::from_str(&source)
        .map_err(|error| CliError::Usage(format!("`--schema` must be a JSON Schema: {error}")))?;
    Ok(OutputSchema::parse(value).map_err(meerkat::Error::from)?)
}

/// Interrupts the run at the first Ctrl-C, or when the program is asked to end in another way; the second time
/// ends it at once.
fn interrupt_on_ctrl_c() -> CancellationToken {
    let cancel = CancellationToken::new();
    let token = cancel.clone();
    tokio::spawn(async move {
        asked_to_end().await;
        note("interrupting; press Ctrl-C again to leave at once");
        token.cancel();
        asked_to_end().await;
        std::process::exit(130);
    });
    cancel
}

/// Waits for Ctrl-C, or for whoever ends processes. A terminal that goes away is the user's business.
async fn asked_to_end() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut ended) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = ended.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}

/// What is said beside the answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Notes {
    None,
    Warnings,
    /// What goes on, too.
    Progress,
}

/// Shows a run while it goes on.
struct Screen {
    streams: bool,
    verbose: bool,
    notes: Notes,
    /// Whether the cursor stands in the middle of streamed text.
    open_line: Arc<AtomicBool>,
}

impl Screen {
    fn new(args: &RunArgs) -> Self {
        let text = args.output() == Output::Text && args.schema.is_none();
        Self {
            streams: text && (args.stream || (env::stdout_is_terminal() && !args.no_stream)),
            verbose: args.verbose,
            notes: match args.quiet {
                true => Notes::None,
                false if env::stderr_has_colours() => Notes::Progress,
                false => Notes::Warnings,
            },
            open_line: Arc::default(),
        }
    }

    fn sink(&self, servers: &Arc<McpServers>) -> Option<EventSink> {
        let Self { streams, verbose, notes, .. } = *self;
        let (progress, warns) = (notes == Notes::Progress, notes != Notes::None);
        let (open_line, servers) = (Arc::clone(&self.open_line), Arc::clone(servers));
        (streams || verbose || warns).then(|| -> EventSink {
            Arc::new(move |event: EventEnvelope| {
                if verbose {
                    out::say(&serde_json::to_string(&event.payload).unwrap_or_default());
                }
                match event.payload {
                    AgentEvent::TextDelta { delta } if streams => {
                        out::stream(&delta);
                        open_line.store(!delta.ends_with('\n'), Ordering::Relaxed);
                    }
                    AgentEvent::ToolCallRequested { name, args, .. } if progress => {
                        close_line(&open_line);
                        note(&format!("→ {name} {}", clip(&args.to_string(), 80)));
                    }
                    AgentEvent::ToolConfigChanged { payload }
                        if warns && payload.domain.as_deref() == Some(LEFT_OUT) =>
                    {
                        close_line(&open_line);
                        let (tool, status) = (&payload.target, &payload.status);
                        let place = servers::place_of_tool(&servers, tool);
                        out::say(&format!("warning: the tool `{tool}` is {status}{place}"));
                    }
                    AgentEvent::BudgetWarning { budget_type, percent, .. } if warns && percent < 1.0 => {
                        close_line(&open_line);
                        let what = match budget_type {
                            BudgetType::Tokens => "tokens",
                            BudgetType::Time => "time",
                            BudgetType::ToolCalls => "tool calls",
                            BudgetType::Cost => "money",
                        };
                        out::say(&format!("warning: {:.0} % of the run's {what} is used", percent * 100.0));
                    }
                    AgentEvent::Retrying { error, delay_ms, .. } if progress => {
                        close_line(&open_line);
                        note(&format!("trying again in {} s: {error}", delay_ms.div_ceil(1000)));
                    }
                    _ => {}
                }
            })
        })
    }

    /// Ends the streamed text; says whether there was any.
    fn finish(&self) -> bool {
        close_line(&self.open_line);
        self.streams
    }
}

fn close_line(open_line: &AtomicBool) {
    if open_line.swap(false, Ordering::Relaxed) {
        out::stream("\n");
    }
}

/// Prints a note for the person at the terminal.
fn note(text: &str) {
    if env::stderr_has_colours() {
        out::say(&format!("\u{1b}[2m{text}\u{1b}[0m"));
    } else {
        out::say(text);
    }
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
        out::line(&shown_call(call).to_string());
    }
    for awaited in &pending.approvals {
        out::line(&approvals::shown(awaited).to_string());
    }
    if !pending.calls.is_empty() {
        note("the session waits for the results of calls; its owner gives them with meerkat_resume");
    }
    if !pending.approvals.is_empty() {
        note(&approvals::advice(session));
    }
}

fn shown_call(call: &ToolCall) -> Value {
    json!({ "tool_use_id": call.id, "tool_name": call.name, "args": call.args })
}

fn print_structured(done: &Completion) -> Result<(), CliError> {
    if let Some(value) = &done.structured_output {
        print_json(value);
        return Ok(());
    }
    let reason = done.extraction_error.as_ref().map_or_else(
        || "the run ended before there was one".to_owned(),
        |error| {
            format!(
                "{} (after {} tries; the last was: {})",
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
            let calls: Vec<_> = pending.calls.iter().map(shown_call).collect();
            let awaited: Vec<_> = pending.approvals.iter().map(approvals::shown).collect();
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
    note(&format!(
        "session {} · {} · {} · {} tokens{cost} · {}",
        result.session_id,
        count(report.steps, "step"),
        count(report.tool_calls, "tool call"),
        report.usage.total(),
        result.model,
    ));
    if is_used_up(result) {
        note("the run's budget is used up");
    }
}

fn is_used_up(result: &RunResult) -> bool {
    matches!(&result.report.outcome, Outcome::Completed(done) if done.cause == Some(TerminalCause::BudgetExhausted))
}

/// What was asked for is not done while a call waits for an approval.
fn exit_code(result: &RunResult) -> ExitCode {
    match &result.report.outcome {
        Outcome::Pending(pending) if !pending.approvals.is_empty() => ExitCode::FAILURE,
        _ if is_used_up(result) => ExitCode::from(2),
        _ => ExitCode::SUCCESS,
    }
}
