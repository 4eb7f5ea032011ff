//! The interface for embedders.

use std::sync::Arc;

use meerkat::{
    AgentEvent, BudgetLimits, Error, ErrorKind, Runtime, RuntimeBuilder, SessionId, StopReason,
    TerminalCause, Tool,
};
use meerkat_core::{Invocation, ToolImpact};
use meerkat_testkit::{Script, ScriptedModel};
use serde_json::json;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Shout {
    text: String,
}

fn shout() -> Tool {
    Tool::from_fn("shout", "Returns capitals.", async |args: Shout| match &*args.text {
        "" => Err("nothing to shout"),
        text => Ok(text.to_uppercase()),
    })
}

fn offline() -> RuntimeBuilder {
    Runtime::builder().model("offline")
}

#[tokio::test]
async fn session_continues_with_its_next_prompt() {
    let runtime = offline().build().unwrap();
    let session = runtime.session();
    assert_eq!(session.id(), None);
    let first = session.prompt("say one").await.unwrap();
    assert_eq!((first.text.as_str(), first.model.as_str(), first.steps), ("one", "offline", 1));
    assert_eq!(session.id(), Some(first.session_id));
    let second = session.clone().prompt("say two").await.unwrap();
    assert_eq!((second.text.as_str(), second.session_id), ("two", first.session_id));
    let resumed = runtime.resume(first.session_id).prompt("say three").await.unwrap();
    assert_eq!(resumed.session_id, first.session_id);
    let history = runtime.sessions().history(first.session_id, 0, None).await.unwrap();
    assert_eq!(history.message_count, 6);
    assert_ne!(runtime.ask("say four").await.unwrap().session_id, first.session_id);
}

#[tokio::test]
async fn concurrent_first_prompts_create_one_session() {
    let session = offline().build().unwrap().session();
    let prompts = (0..4).map(|_| tokio::spawn(session.prompt("say hi").into_future()));
    let mut ids = Vec::new();
    for prompt in prompts.collect::<Vec<_>>() {
        match prompt.await.unwrap() {
            Ok(answer) => ids.push(answer.session_id),
            Err(error) => assert_eq!(error.kind(), ErrorKind::SessionBusy, "{error}"),
        }
    }
    assert!(!ids.is_empty() && ids.iter().all(|id| session.id() == Some(*id)), "{ids:?}");
}

#[tokio::test]
async fn unknown_session_cannot_be_resumed() {
    let id = SessionId::from_uuid(uuid::Uuid::now_v7());
    let error = offline().build().unwrap().resume(id).prompt("say hi").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionNotFound);
}

#[tokio::test]
async fn function_is_a_tool() {
    let runtime = offline().tool(shout()).build().unwrap();
    let session = runtime.session();
    let said = async |call: &str| session.prompt(format!("call shout {call}")).await.unwrap().text;
    assert_eq!(said(r#"{"text": "hi"}"#).await, "shout → HI");
    let failed = said(r#"{"text": ""}"#).await;
    assert!(failed.contains("execution_failed") && failed.contains("nothing to shout"), "{failed}");
    let misfit = said(r#"{"text": 7}"#).await;
    assert!(misfit.contains("invalid_arguments") && misfit.contains("`text`: invalid type"), "{misfit}");
}

#[tokio::test]
async fn function_gets_the_session_of_its_call() {
    let whoami = Tool::with_invocation(
        "whoami",
        "Returns the session.",
        async |invocation: Invocation, _: serde_json::Map<String, serde_json::Value>| json!({ "session": invocation.session_id }),
    );
    let runtime = offline().tool(whoami.impact(ToolImpact::ReadOnly)).build().unwrap();
    let answer = runtime.ask("call whoami {}").await.unwrap();
    assert_eq!(answer.text, format!("whoami → {{\"session\":\"{}\"}}", answer.session_id));
    assert_eq!(answer.tool_calls, 1);
}

#[test]
fn invalid_tools_and_configs_are_errors_of_build() {
    let message = |builder: RuntimeBuilder| builder.build().unwrap_err().to_string();
    let bad = Tool::from_fn("no spaces", "", async |_: Shout| "");
    assert_eq!(
        message(offline().tool(bad)),
        "`tools[0].name`: `no spaces` must have 1 to 64 letters, digits, `_` or `-`"
    );
    assert_eq!(message(offline().tool(shout()).tool(shout())), "`tools[1].name`: duplicate tool `shout`");
    let unknown = message(offline().config(json!({ "agent": { "modle": "x" } })));
    assert!(unknown.contains("`agent.modle`: unknown field"), "{unknown}");
    let url = message(offline().base_url(meerkat::Provider::OpenAi, "ftp://example.com"));
    assert!(url.contains("`providers.openai.base_url`"), "{url}");
}

#[tokio::test]
async fn stored_config_overrides_that_of_the_program() {
    let runtime =
        offline().config(json!({ "agent": { "max_turns": 7, "temperature": 0.5 } })).build().unwrap();
    let patch = json!({ "agent": { "max_turns": 3 } }).as_object().unwrap().clone();
    runtime.config().change(meerkat::ConfigChange::Patch(patch), None).await.unwrap();
    let config = runtime.config().get().await.unwrap().config;
    assert_eq!(config.agent.model.as_deref(), Some("offline"));
    assert_eq!((config.agent.max_turns, config.agent.temperature), (Some(3), Some(0.5)));
}

#[derive(Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
struct City {
    name: String,
}

fn scripted(script: impl IntoIterator<Item = Script>) -> Runtime {
    let model = ScriptedModel::new(script);
    Runtime::builder().options(|options| options.models.push(Arc::clone(&model) as _)).build().unwrap()
}

#[tokio::test]
async fn output_is_a_value_of_the_type() {
    let runtime = scripted([Script::say("Paris, of course."), Script::say(r#"{"name": "Paris"}"#)]);
    let city: City = runtime.ask("a city?").model("scripted").output().await.unwrap();
    assert_eq!(city, City { name: "Paris".to_owned() });
}

#[tokio::test]
async fn output_that_never_matches_is_an_error() {
    let misfits = (0..9).map(|_| Script::say("{}"));
    let error = scripted(misfits).ask("a city?").model("scripted").output::<City>().await.unwrap_err();
    assert!(matches!(&error, Error::NoStructuredOutput(reason) if reason.contains("name")), "{error}");
}

#[tokio::test]
async fn run_without_an_answer_is_an_error() {
    let runtime = offline().tool(shout()).build().unwrap();
    let budget = BudgetLimits { max_tokens: Some(1), ..BudgetLimits::default() };
    let error = runtime.ask(r#"call shout {"text": "a"}"#).budget(budget).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BudgetExhausted, "{error:?}");
    assert_eq!(error.to_string(), "the run ended without an answer: its budget is exhausted");
    let Error::Stopped(stopped) = error else { panic!("{error}") };
    assert_eq!(stopped.reason, StopReason::Limit(TerminalCause::BudgetExhausted));
    let session = runtime.resume(stopped.session_id);
    assert_eq!(session.prompt("say again").await.unwrap().text, "again");
}

#[tokio::test]
async fn text_of_a_stopped_run_is_kept() {
    let runtime = scripted([Script::stall("half an ans")]);
    let budget = BudgetLimits { max_duration_secs: Some(1), ..BudgetLimits::default() };
    let error = runtime.ask("go").model("scripted").budget(budget).await.unwrap_err();
    let Error::Stopped(stopped) = error else { panic!("{error}") };
    assert_eq!(stopped.reason, StopReason::Limit(TerminalCause::BudgetExhausted));
    assert_eq!(stopped.text, "half an ans");
}

#[tokio::test]
async fn events_of_a_run_are_a_stream_that_ends() {
    let mut run = offline().build().unwrap().ask("say one two").start().await.unwrap();
    let (mut text, mut first, mut last) = (String::new(), None, None);
    while let Some(event) = run.events.next().await {
        if let AgentEvent::TextDelta { delta } = &event.payload {
            text.push_str(delta);
        }
        first.get_or_insert_with(|| Arc::clone(&event));
        last = Some(event);
    }
    assert_eq!(text, "one two");
    assert!(matches!(first.unwrap().payload, AgentEvent::RunStarted { .. }));
    assert!(matches!(last.unwrap().payload, AgentEvent::RunCompleted { .. }));
    assert_eq!(run.answer().await.unwrap().text, "one two");
}

#[tokio::test]
async fn handle_interrupts_its_run() {
    let runtime = scripted([Script::Hang]);
    let run = runtime.ask("wait").model("scripted").start().await.unwrap();
    run.cancel();
    assert_eq!(run.answer().await.unwrap_err().kind(), ErrorKind::RequestCancelled);
}

#[cfg(feature = "anthropic")]
#[tokio::test]
async fn key_is_for_its_provider_only() {
    let runtime = Runtime::builder().api_key(meerkat::Provider::OpenAi, "sk-own-key").build().unwrap();
    let error = runtime.ask("hi").model("claude-opus-4-6").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ProviderError);
    assert!(error.to_string().contains("ANTHROPIC_API_KEY"), "{error}");
}

#[tokio::test]
async fn blocking_tool_leaves_the_thread_to_others() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let receiver = std::sync::Mutex::new(receiver);
    let shout = Tool::blocking("shout", "Waits.", move |args: Shout| {
        let heard: &str = receiver.lock().unwrap().recv().unwrap();
        format!("{} {heard}", args.text)
    });
    let runtime = offline().tool(shout).build().unwrap();
    let mut run = runtime.ask("call shout {\"text\": \"a\"}").start().await.unwrap();
    while !matches!(run.events.next().await.unwrap().payload, AgentEvent::ToolExecutionStarted { .. }) {}
    sender.send("b").unwrap();
    assert_eq!(run.answer().await.unwrap().text, "shout → a b");
}

#[tokio::test]
async fn debug_output_has_no_secrets() {
    let secret = "key-that-nobody-may-read";
    let mut options = meerkat::RuntimeOptions::default();
    options.tools.environment.insert("API_KEY".to_owned(), secret.to_owned());
    options.secrets = Some(std::sync::Arc::new(move |_: &str| Some(secret.to_owned())));
    let text = format!("{options:?}");
    assert!(text.contains("config_access: Client") && !text.contains(secret), "{text}");
    let runtime = meerkat::Runtime::ephemeral(options).unwrap();
    let (sessions, config) = (runtime.sessions(), runtime.config());
    let prompt = runtime.ask("hi");
    let text = format!("{sessions:?} {config:?} {prompt:?}");
    assert!(text.contains("has_approver: false") && !text.contains(secret), "{text}");
}
