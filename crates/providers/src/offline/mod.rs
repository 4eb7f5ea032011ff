//! The offline model, for trying things out without an API key, for tests, and for demos.
//!
//! It executes the commands in the last user message (see [`command`]), fills a requested schema with a minimal
//! instance (see [`instance`]), and otherwise describes itself. The same request gets the same response, with one
//! exception that must be requested explicitly: `fail KIND N` counts its attempts.

mod command;
mod failures;
mod instance;
mod number;
mod output;
mod reply;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use meerkat_core::{
    BoxFuture, Content, DeltaSink, Message, Model, ModelError, ModelErrorKind, ModelInfo, ModelRequest,
    ModelResponse, Provider,
};

use command::{Command, Script};
use failures::FailureCounter;
use output::Output;

/// Formats the parsed commands of a prompt.
#[cfg(feature = "fuzzing")]
pub(crate) fn commands(prompt: &str) -> String {
    format!("{:?}", Script::read(prompt))
}

/// Id of the offline model.
pub const OFFLINE_MODEL_ID: &str = "offline";

/// A model that depends only on the request.
#[derive(Debug)]
pub struct OfflineModel {
    info: ModelInfo,
    failures: FailureCounter,
}

impl OfflineModel {
    /// Creates the model.
    #[must_use]
    pub fn new() -> Self {
        Self {
            info: ModelInfo {
                context_window: Some(128_000),
                ..ModelInfo::new(OFFLINE_MODEL_ID, Provider::Other)
            },
            failures: FailureCounter::default(),
        }
    }

    async fn answer(
        &self,
        request: &ModelRequest,
        deltas: DeltaSink<'_>,
    ) -> Result<ModelResponse, ModelError> {
        let mut output = Output::new(deltas);
        if let Some(schema) = &request.output_schema {
            let forced = forced_json(request);
            output.say(&forced.unwrap_or_else(|| instance::instance(&schema.schema).to_string()));
        } else if is_summary_request(request) {
            output.say(&reply::summary(&request.messages));
        } else {
            self.step(request, &mut output).await?;
        }
        Ok(output.finish(request))
    }

    /// Executes the commands of the current step.
    async fn step(&self, request: &ModelRequest, output: &mut Output<'_>) -> Result<(), ModelError> {
        let (text, since) = last_user(request);
        let mut script = Script::read(&text);
        let steps_done = since.iter().filter(|message| !message.tool_calls().is_empty()).count();
        if steps_done < script.parts.len() {
            return self.execute(script.parts.swap_remove(steps_done), request, output).await;
        }
        if steps_done > 0 {
            output.say(&reply::results(since));
        } else if !script.json.is_empty() {
            output.say("ok");
        } else if reply::asks_for_tools(&text) {
            output.say(&reply::tool_list(&request.tools));
        } else {
            output.say(&reply::about(&text));
        }
        Ok(())
    }

    async fn execute(
        &self,
        commands: Vec<Command<'_>>,
        request: &ModelRequest,
        output: &mut Output<'_>,
    ) -> Result<(), ModelError> {
        let mut key = None;
        let mut planned = 0;
        for command in commands {
            match command {
                Command::Say(text) => output.say(text),
                Command::Remark(text) => output.say(&text),
                Command::Think(text) => output.think(text),
                Command::Call { name, args } => output.call(name, args),
                Command::Wait(time) if time == Duration::ZERO => {}
                Command::Wait(time) => tokio::time::sleep(time).await,
                Command::Fail { kind, times } => {
                    let key = *key.get_or_insert_with(|| FailureCounter::key(&request.messages));
                    planned = times.map_or(u32::MAX, |times| times.saturating_add(planned));
                    if self.failures.count(key) < planned {
                        self.failures.add(key);
                        return Err(failure(kind));
                    }
                }
            }
        }
        if let Some(key) = key {
            self.failures.forget(key);
        }
        Ok(())
    }
}

impl Default for OfflineModel {
    fn default() -> Self {
        Self::new()
    }
}

impl Model for OfflineModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn generate<'a>(
        &'a self,
        request: &'a ModelRequest,
        deltas: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(self.answer(request, deltas))
    }
}

fn failure(kind: ModelErrorKind) -> ModelError {
    ModelError {
        kind,
        provider: Provider::Other,
        status: None,
        retry_after: None,
        message: format!("the offline model was told to fail with `{}`", command::kind_name(kind)),
    }
}

/// Returns the text of the last user message and the messages after it.
fn last_user(request: &ModelRequest) -> (String, &[Arc<Message>]) {
    let messages = &request.messages;
    let position = messages.iter().rposition(|m| user_content(m).is_some());
    let text = position.and_then(|at| user_content(&messages[at])).map(Content::to_text);
    (text.unwrap_or_default(), &messages[position.map_or(0, |at| at + 1)..])
}

fn user_content(message: &Message) -> Option<&Content> {
    match message {
        Message::User { content, .. } => Some(content),
        _ => None,
    }
}

/// Returns the structured output that the latest `json` lines request. The first line applies to the first attempt,
/// the second line to the second; the last one applies to all further attempts.
fn forced_json(request: &ModelRequest) -> Option<String> {
    let newest_first = request.messages.iter().rev().filter_map(|m| user_content(m));
    for (later_users, content) in newest_first.enumerate() {
        let text = content.to_text();
        let lines = Script::read(&text).json;
        if let Some(last) = lines.len().checked_sub(1) {
            return Some(lines[later_users.saturating_sub(1).min(last)].to_owned());
        }
    }
    None
}

fn is_summary_request(request: &ModelRequest) -> bool {
    let is_summary = |content: &Content| content.to_text().starts_with(reply::SUMMARY_REQUEST);
    let last = request.messages.last().and_then(|m| user_content(m));
    request.tools.is_empty() && last.is_some_and(is_summary)
}
