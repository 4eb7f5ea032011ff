//! Compaction: long conversations are shortened for the model and stored in full.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use meerkat::{ConfigChange, ErrorKind, NewSessionOptions, Runtime, RuntimeOptions, SessionId, TurnOptions};
use meerkat_core::{
    AssistantBlock, BoxFuture, DeltaSink, Invocation, Message, Model, ModelError, ModelErrorKind, ModelInfo,
    ModelRequest, ModelResponse, Provider, ResponseStatus, StopReason, ToolOutput, Usage, estimate_tokens,
};
use meerkat_testkit::{FnTool, Recorder, Script, ScriptedModel, Tools};
use serde_json::{Value, json};

use crate::world::{World, object, say, text, then, watch};

/// Returns about 250 tokens of text.
fn long(word: &str) -> String {
    format!("{word} ").repeat(200)
}

/// Creates a world that compacts sessions from 200 tokens on.
async fn compacting(script: impl IntoIterator<Item = Script>) -> World {
    let look = FnTool::new("look", async |_| ToolOutput::text("seen"));
    let world = World::with(ScriptedModel::new(script), [look]);
    world.configure(json!({"compaction": {"auto_compact_threshold": 200}})).await;
    world
}

async fn recorded(world: &World, id: SessionId, prompt: &str) -> Recorder {
    let recorder = Recorder::default();
    world.sessions().start_turn(id, then(prompt), watch(&recorder)).await.unwrap();
    recorder
}

#[tokio::test]
async fn model_reads_summary_and_later_messages() {
    let world =
        compacting([Script::say("a"), Script::say("they said one"), Script::say("b"), Script::say("c")])
            .await;
    let id = world.session("one").await;
    let two = long("two");
    recorded(&world, id, &two).await;
    world.resume(id, then("three")).await.unwrap();

    let seen = world.model.seen();
    assert_eq!(seen[1].lines[..2], ["user: one", "assistant: a"], "the summarized messages");
    assert!(seen[1].lines[2].starts_with("user: Summarize the conversation"), "{:?}", seen[1].lines);
    let tools: Vec<_> = seen.iter().map(|request| request.tools.len()).collect();
    // Compacted messages are searchable from the next run on.
    let search = usize::from(cfg!(feature = "memory-store-session"));
    assert_eq!(tools, [1, 0, 1, 1 + search], "a summary request has no tools");
    let summary =
        "notice: [Context compacted] Summary of the conversation so far:\n\nthey said one".to_owned();
    assert_eq!(seen[2].lines, [summary.clone(), format!("user: {two}")]);
    let after =
        [summary.clone(), format!("user: {two}"), "assistant: b".to_owned(), "user: three".to_owned()];
    assert_eq!(seen[3].lines, after, "in a later run, too");

    let full = [
        "user: one",
        "assistant: a",
        &format!("user: {two}"),
        &summary,
        "assistant: b",
        "user: three",
        "assistant: c",
    ];
    assert_eq!(world.lines(id).await, full, "the history stays complete");
}

#[tokio::test]
async fn events_report_compaction() {
    let world = compacting([Script::say("a"), Script::say("they said one")]).await;
    let id = world.session("one").await;
    let recorder = recorded(&world, id, &long("two")).await;
    let started = json!({"type": "compaction_started", "input_tokens": 10, "estimated_history_tokens": 200, "message_count": 3});
    assert_eq!(recorder.by_type("compaction_started"), [started]);
    let completed = json!({"type": "compaction_completed", "summary_tokens": 5, "messages_before": 3, "messages_after": 2});
    assert_eq!(recorder.by_type("compaction_completed"), [completed]);
}

#[tokio::test]
async fn first_step_is_never_compacted() {
    let world = compacting([]).await;
    let (done, recorder) = world.record(say(&long("one"))).await;
    done.unwrap();
    assert_eq!(recorder.by_type("compaction_started"), [Value::Null; 0]);
}

#[tokio::test]
async fn compactions_are_separated_by_steps() {
    let world = compacting([]).await;
    let id = world.session("one").await;
    let mut compacted = Vec::new();
    for _ in 0..6 {
        let recorder = recorded(&world, id, &long("more")).await;
        compacted.push(!recorder.by_type("compaction_completed").is_empty());
    }
    assert_eq!(compacted, [true, false, false, true, false, false]);
}

#[tokio::test]
async fn failed_summary_does_not_fail_the_run() {
    let world = compacting([Script::say("a"), Script::Fail(ModelErrorKind::Server), Script::say("b")]).await;
    let id = world.session("one").await;
    let recorder = recorded(&world, id, &long("two")).await;
    assert_eq!(recorder.by_type("compaction_failed").len(), 1);
    assert_eq!(world.model.seen()[2].lines.len(), 3, "the full history");
    assert_eq!(world.sessions().last_text(id).await.unwrap().unwrap(), "b");
}

#[tokio::test]
async fn small_window_lowers_the_threshold() {
    let world = World::with(ScriptedModel::with_window([], 250), []);
    let id = world.session("one").await;
    let recorder = recorded(&world, id, &long("two")).await;
    assert_eq!(recorder.by_type("compaction_completed").len(), 1);
}

#[tokio::test]
async fn overflowing_session_recovers_without_summary() {
    let overflow = || Script::Fail(ModelErrorKind::ContextOverflow);
    let world = World::new([Script::say("a"), overflow(), overflow(), Script::say("recovered")]);
    world.configure(json!({"compaction": {"recent_turn_budget": 1}})).await;
    let id = world.session("one").await;
    let done = world.resume(id, then("two")).await.unwrap();
    assert_eq!(text(&done), "recovered");
    let seen = world.model.seen();
    assert_eq!(
        seen[3].lines,
        [
            "notice: [Context compacted] The oldest 2 messages were omitted; they could not be summarized.",
            "user: two"
        ]
    );
}

/// A model with a small window that validates every request, and works for a given number of steps.
struct Strict {
    info: ModelInfo,
    steps: u64,
    steps_taken: AtomicU64,
    rejected: AtomicU64,
}

impl Strict {
    /// Counts the tokens of a request as the provider would, and checks it.
    fn length(request: &ModelRequest) -> u64 {
        for (index, message) in request.messages.iter().enumerate() {
            let calls: Vec<_> = message.tool_calls().into_iter().map(|call| call.id).collect();
            let answered: Vec<_> = match request.messages.get(index + 1).map(|next| &**next) {
                Some(Message::ToolResults { results, .. }) => {
                    results.iter().map(|result| result.tool_use_id.clone()).collect()
                }
                _ => Vec::new(),
            };
            assert_eq!(answered, calls, "every call has its result");
        }
        let tools: usize = request.tools.iter().map(|tool| tool.input_schema.to_string().len()).sum();
        let tokens: u64 = request.messages.iter().map(|message| estimate_tokens(message)).sum();
        tokens + (request.system.len() + tools) as u64 / 4
    }
}

impl Model for Strict {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn generate<'a>(
        &'a self,
        request: &'a ModelRequest,
        _: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(async move {
            let input_tokens = Self::length(request);
            if self.info.context_window.is_some_and(|window| input_tokens > window) {
                self.rejected.fetch_add(1, Ordering::Relaxed);
                return Err(ModelError {
                    kind: ModelErrorKind::ContextOverflow,
                    provider: Provider::Other,
                    status: None,
                    retry_after: None,
                    message: "too long".to_owned(),
                });
            }
            let text = |text: String| AssistantBlock::Text { text, meta: None };
            let block = if request.tools.is_empty() {
                text("They went on. ".repeat(2000))
            } else {
                match self.steps_taken.fetch_add(1, Ordering::Relaxed) {
                    step if step < self.steps => AssistantBlock::ToolUse {
                        id: format!("c{step}"),
                        name: "work".to_owned(),
                        args: json!({ "step": step }),
                        meta: None,
                    },
                    _ => text("all done".to_owned()),
                }
            };
            let usage = Usage { input_tokens, output_tokens: 5, ..Usage::default() };
            let (stop_reason, extent) = (StopReason::EndTurn, ResponseStatus::Complete);
            Ok(ModelResponse { blocks: vec![block], stop_reason, extent, usage })
        })
    }
}

#[tokio::test]
async fn many_steps_on_a_small_window_never_fail() {
    let info = ModelInfo { context_window: Some(4000), ..ModelInfo::new("small", Provider::Other) };
    let (steps_taken, rejected) = (AtomicU64::new(0), AtomicU64::new(0));
    let model = Arc::new(Strict { info, steps: 2000, steps_taken, rejected });
    // Results of many lengths, some longer than the entire window.
    let work = FnTool::new("work", async |invocation: Invocation| {
        let step = invocation.call.args["step"].as_u64().unwrap_or_default();
        let words = if step.is_multiple_of(97) { 5000 } else { step * 37 % 900 };
        ToolOutput::text("result ".repeat(usize::try_from(words).unwrap_or_default()))
    });
    let options = RuntimeOptions {
        models: vec![Arc::clone(&model) as _],
        tool_sources: vec![Tools::new([work])],
        ..RuntimeOptions::default()
    };
    let runtime = Runtime::ephemeral(options).unwrap();
    let patch = json!({"agent": {"max_turns": 5000}});
    runtime.config().change(ConfigChange::Patch(object(patch)), None).await.unwrap();
    let turn = TurnOptions { model: Some("small".to_owned()), ..then("work for long") };
    let recorder = Recorder::default();
    let done = runtime.sessions().create(NewSessionOptions::default(), turn, watch(&recorder)).await.unwrap();
    let summaries = recorder.by_type("compaction_completed").len();
    let turns = 2001 + u32::try_from(summaries).unwrap();
    assert_eq!((text(&done), done.report.steps, done.report.tool_calls), ("all done", turns, 2000));
    assert_eq!(model.rejected.load(Ordering::Relaxed), 0, "no request was too long");
    assert!(summaries > 100);
    assert_eq!(recorder.by_type("compaction_failed"), [Value::Null; 0]);
}

#[tokio::test]
async fn oversized_prompt_fails_but_session_continues() {
    let overflow = || Script::Fail(ModelErrorKind::ContextOverflow);
    let replies = [Script::say("hi"), overflow(), overflow(), overflow()];
    let world =
        World::new(replies.into_iter().chain([overflow(), Script::say("in short"), Script::say("read")]));
    let id = world.session("hello").await;
    let prompt = long("one");
    let error = world.resume(id, then(&prompt)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AgentError, "{error}");
    assert!(
        world.model.seen().iter().skip(1).all(|request| !request.lines.join("").contains("[… omitted …]"))
    );
    let done = world.resume(id, then("go on")).await.unwrap();
    assert_eq!(text(&done), "read");
    let seen = world.model.seen();
    let lines = &seen[seen.len() - 1].lines;
    assert!(lines.iter().all(|line| line.len() < prompt.len()), "{lines:?}");
    assert!(world.lines(id).await.contains(&format!("user: {prompt}")), "the history stays complete");
}
