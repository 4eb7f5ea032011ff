//! The request for a run: arguments and stdin.

use std::collections::BTreeMap;

use meerkat::{
    BudgetLimits, Content, NewSessionOptions, OutputSchema, RunControl, RunInput, RunRequest, Target,
    ToolOverlay, TurnOptions,
};
use serde_json::{Map, Value};

use super::approvals::has_decisions;
use crate::args::{RunArgs, ToolPreset};
use crate::commands::{pairs, params};
use crate::env;
use crate::error::CliError;
use crate::locate::is_clearly_reference;
use crate::stdin::{self, Need};

/// Turns the arguments and stdin into a request. Facts that only a runtime knows are added later: the session to
/// resume, the decisions, and the skills.
pub(super) async fn request(args: &RunArgs) -> Result<RunRequest, CliError> {
    let turn = turn(args, prompt(args).await?)?;
    let labels = if args.resume.is_some() { BTreeMap::new() } else { pairs(&args.labels)? };
    Ok(RunRequest { target: Target::New(NewSessionOptions { labels }), turn, control: RunControl::default() })
}

/// Returns `true` if a request resumes a session without a prompt or a decision.
pub(super) fn is_empty(args: &RunArgs, request: &RunRequest) -> bool {
    let input = &request.turn.input;
    args.prompt.is_none() && input.prompt.is_blank() && input.approvals.is_empty()
}

/// Returns the prompt, which may be empty if a session is resumed.
async fn prompt(args: &RunArgs) -> Result<String, CliError> {
    let has_stdin = !args.no_stdin && env::stdin_kind().is_readable();
    match args.prompt.as_deref() {
        Some(word) if is_clearly_reference(word) => Err(CliError::Usage(format!(
            "`{word}` is a session, not a prompt; resume the session with `--resume {word} \"…\"`"
        ))),
        Some(prompt) if prompt != "-" => with_stdin(prompt, args).await,
        None if has_decisions(args) || (args.resume.is_some() && !has_stdin) => Ok(String::new()),
        _ if args.no_stdin || env::stdin_is_terminal() => Err(no_prompt()),
        _ => Ok(stdin::read(Need::Prompt).await?.unwrap_or_default()),
    }
}

pub(super) fn no_prompt() -> CliError {
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
    let given = |texts: &[String]| (!texts.is_empty()).then(|| texts.to_vec());
    Ok(TurnOptions {
        input: RunInput { prompt: Content::text(prompt), ..RunInput::default() },
        model: args.model.clone(),
        provider: args.provider,
        system_prompt: args.system.clone(),
        instructions: given(&args.instructions),
        max_tokens: args.max_tokens,
        provider_params: provider_params(args)?,
        builtins: args.tools.map(ToolPreset::builtins),
        files: args.tools.and_then(ToolPreset::files),
        memory: args.tools.and_then(ToolPreset::memory),
        shell: args.tools.map(ToolPreset::shell),
        approvals: args.approvals,
        output_schema: args.schema.as_deref().map(schema).transpose()?,
        overlay: ToolOverlay { allowed: given(&args.allow_tool), blocked: args.block_tool.clone() },
        budget: BudgetLimits {
            max_tokens: args.max_total_tokens,
            max_duration_secs: args.max_duration.map(|span| span.0.as_secs().max(1)),
            max_tool_calls: args.max_tool_calls,
            max_cost_usd: args.max_cost,
        },
        ..TurnOptions::default()
    })
}

fn provider_params(args: &RunArgs) -> Result<Option<Map<String, Value>>, CliError> {
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
    params.extend(self::params(&args.params)?);
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
