//! Tests of the offline model through the `Model` interface.

mod commands;
mod instances;
mod replies;

use std::sync::{Arc, Mutex};

use meerkat_core::{
    AssistantBlock, Content, Delta, Message, Model as _, ModelError, ModelRequest, ModelResponse,
    OutputSchema, StopReason, Timestamp, ToolDef, ToolOutput, ToolResult,
};
use serde_json::Value;

use super::OfflineModel;

fn user(text: &str) -> Message {
    Message::User { content: Content::text(text), created_at: Timestamp::UNIX_EPOCH }
}

fn assistant(blocks: Vec<AssistantBlock>) -> Message {
    Message::Assistant { blocks, stop_reason: StopReason::EndTurn, created_at: Timestamp::UNIX_EPOCH }
}

fn results(results: Vec<ToolResult>) -> Message {
    Message::ToolResults { results, created_at: Timestamp::UNIX_EPOCH }
}

fn tool(name: &str, description: &str) -> ToolDef {
    ToolDef {
        name: name.to_owned(),
        description: description.to_owned(),
        input_schema: serde_json::json!({}),
    }
}

fn request(messages: Vec<Message>) -> ModelRequest {
    ModelRequest {
        system: String::new(),
        messages: messages.into_iter().map(Arc::new).collect(),
        tools: Arc::new([tool("a", "First.\nSecond."), tool("b", "Other.")]),
        max_tokens: 1000,
        temperature: None,
        output_schema: None,
        provider_params: None,
    }
}

fn extraction(messages: Vec<Message>, schema: Value) -> ModelRequest {
    ModelRequest {
        tools: Arc::new([]),
        output_schema: OutputSchema::parse(schema).ok().map(Arc::new),
        ..request(messages)
    }
}

async fn ask(
    model: &OfflineModel,
    request: &ModelRequest,
) -> Result<(ModelResponse, Vec<Delta>), ModelError> {
    let deltas = Mutex::new(Vec::new());
    let answer = model.generate(request, &|delta| deltas.lock().unwrap().push(delta)).await?;
    Ok((answer, deltas.into_inner().unwrap()))
}

/// Calls a new model, which must succeed.
async fn answer(request: &ModelRequest) -> ModelResponse {
    ask(&OfflineModel::new(), request).await.unwrap().0
}

/// Formats the blocks of a response, one per line.
fn format_blocks(answer: &ModelResponse) -> Vec<String> {
    let format_block = |block: &AssistantBlock| match block {
        AssistantBlock::Text { text, .. } => format!("text {text}"),
        AssistantBlock::Reasoning { text, .. } => format!("reasoning {text}"),
        AssistantBlock::ToolUse { id, name, args, .. } => format!("{id} {name} {args}"),
        other => format!("{other:?}"),
    };
    answer.blocks.iter().map(format_block).collect()
}

/// Calls a new model with one prompt and formats the response.
async fn say(prompt: &str) -> Vec<String> {
    format_blocks(&answer(&request(vec![user(prompt)])).await)
}

/// Runs a prompt to its end; every tool returns its own name, and `bad` fails. Formats each response.
async fn run(prompt: &str) -> Vec<Vec<String>> {
    let mut messages = vec![user(prompt)];
    let mut steps = Vec::new();
    loop {
        let answer = answer(&request(messages.clone())).await;
        steps.push(format_blocks(&answer));
        let message = assistant(answer.blocks);
        let calls = message.tool_calls();
        if calls.is_empty() {
            return steps;
        }
        messages.push(message);
        let result = |call: &meerkat_core::ToolCall| ToolResult {
            is_error: call.name == "bad",
            ..ToolOutput::text(format!("{} ran", call.name)).into_result(call.id.clone())
        };
        messages.push(results(calls.iter().map(result).collect()));
    }
}
