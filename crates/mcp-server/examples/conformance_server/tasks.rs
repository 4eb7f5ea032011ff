//! Tools that return a task if the client supports tasks.

use std::time::Duration;

use meerkat::CancellationToken;
use meerkat_mcp_server::protocol::{Request, TaskError, TaskWork};
use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock,
    CreateTaskResult, InputRequiredResult,
};
use serde_json::{Value, json};

use crate::content::text;
use crate::questions::elicitation;
use crate::rounds::{ask, input};

pub(crate) async fn call(
    call: CallToolRequestParams,
    request: &Request,
) -> Result<CallToolResponse, ErrorData> {
    let argument = |name: &str| call.arguments.as_ref().and_then(|arguments| arguments.get(name));
    let word = |name: &str| argument(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    match &*call.name {
        "greet" => Ok(text(format!("Hello, {}!", word("name"))).into()),
        "slow_compute" => {
            let seconds = argument("seconds").and_then(Value::as_f64).unwrap_or_default();
            let label = word("label");
            if request.tasks().is_none() {
                tokio::time::sleep(Duration::try_from_secs_f64(seconds).unwrap_or_default()).await;
                return Ok(text(format!("computed {label} for {seconds} s")).into());
            }
            start_task(request, move |work| compute(work, seconds, label))
        }
        "failing_job" => start_task(request, |_| async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok(CallToolResult::error(vec![ContentBlock::text("the job failed")]))
        }),
        "protocol_error_job" => start_task(request, |_| async {
            Err(TaskError::Failed(ErrorData::internal_error("the job broke", None)))
        }),
        "confirm_delete" => {
            let file = word("filename");
            start_task(request, |work| confirm(work, file))
        }
        "multi_input" => start_task(request, both),
        _ => ask_first(&call, request),
    }
}

/// Starts work as a task, or fails if the client does not support tasks.
fn start_task<F>(request: &Request, work: impl FnOnce(TaskWork) -> F) -> Result<CallToolResponse, ErrorData>
where
    F: Future<Output = Result<CallToolResult, TaskError>> + Send + 'static,
{
    let Some(tasks) = request.tasks() else {
        let needed = ClientCapabilities::builder().enable_tasks().build();
        return Err(ErrorData::missing_required_client_capability(needed));
    };
    let task = tasks.start(uuid::Uuid::new_v4().to_string(), CancellationToken::new(), work);
    Ok(CreateTaskResult::new(task).into())
}

async fn compute(work: TaskWork, seconds: f64, label: String) -> Result<CallToolResult, TaskError> {
    let wait = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    tokio::select! {
        () = work.cancelled().cancelled() => Err(TaskError::Cancelled),
        () = tokio::time::sleep(wait) => Ok(text(format!("computed {label} for {seconds} s"))),
    }
}

async fn confirm(work: TaskWork, file: String) -> Result<CallToolResult, TaskError> {
    let form =
        elicitation(&format!("Delete {file}?"), json!({ "confirm": { "type": "boolean" } }), &["confirm"]);
    let answer = work.ask("confirm", input(form).map_err(TaskError::Failed)?).await?;
    Ok(text(format!("{file}: {answer}")))
}

async fn both(work: TaskWork) -> Result<CallToolResult, TaskError> {
    let first = input(ask("What is your name?", "name")).map_err(TaskError::Failed)?;
    let second = input(ask("How old are you?", "age")).map_err(TaskError::Failed)?;
    let (first, second) = tokio::try_join!(work.ask("first", first), work.ask("second", second))?;
    Ok(text(format!("{first} and {second}")))
}

/// Asks a question before starting a task.
fn ask_first(call: &CallToolRequestParams, request: &Request) -> Result<CallToolResponse, ErrorData> {
    let answer = call.input_responses.as_ref().and_then(|answers| answers.get("user_name"));
    let Some(name) = answer.and_then(|answer| answer["content"]["name"].as_str()).map(str::to_owned) else {
        let question = input(ask("What is your name?", "name"))?;
        return Ok(InputRequiredResult::new(Some([("user_name".to_owned(), question)].into()), None).into());
    };
    start_task(request, |_| async move { Ok(text(format!("Hello, {name}!"))) })
}
