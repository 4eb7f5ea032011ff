//! Runs with a hosted model, whose provider is a test server.

use std::sync::Arc;

use meerkat::{ConfigChange, Runtime, RuntimeOptions, TurnOptions};
use meerkat_testkit::{Recorder, Server};
use serde_json::{Value, json};

use crate::world::{object, text, then, watch};

async fn runtime(server: &Server) -> Runtime {
    let secrets = |name: &str| name.ends_with("_API_KEY").then(|| "key".to_owned());
    let options = RuntimeOptions { secrets: Some(Arc::new(secrets)), ..RuntimeOptions::default() };
    let runtime = Runtime::ephemeral(options).unwrap();
    let here = json!({"base_url": server.address()});
    let config = json!({
        "providers": {"anthropic": here, "openai": here},
        "retry": {"initial_delay": "1ms", "max_delay": "2ms"},
    });
    runtime.config().change(ConfigChange::Patch(object(config)), None).await.unwrap();
    runtime
}

fn with_model(model: &str, prompt: &str) -> TurnOptions {
    TurnOptions { model: Some(model.to_owned()), ..then(prompt) }
}

/// Builds a response from Anthropic with these complete blocks.
fn answer(blocks: &[Value], stop_reason: &str) -> (&'static str, String) {
    let usage = json!({"input_tokens": 3, "output_tokens": 1});
    let mut events = vec![json!({"type": "message_start", "message": {"usage": usage}})];
    for (index, block) in blocks.iter().enumerate() {
        events.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": stop_reason}, "usage": {}}));
    events.push(json!({"type": "message_stop"}));
    ("200 OK", events.iter().map(|event| format!("data: {event}\n\n")).collect())
}

fn words(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

#[tokio::test]
async fn paused_anthropic_response_is_continued() {
    let search =
        json!({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}});
    let results = json!({"type": "web_search_tool_result", "tool_use_id": "s1", "content": []});
    let server = Server::new([
        answer(&[words("Looking. "), search.clone()], "pause_turn"),
        answer(&[results, words("Found.")], "end_turn"),
    ]);
    let runtime = runtime(&server).await;
    let turn = with_model("claude-sonnet-4-6", "look it up");
    let done = runtime.sessions().create(Default::default(), turn, Default::default()).await.unwrap();
    assert_eq!((text(&done), done.report.steps), ("Looking. Found.", 2));
    let again = &server.seen()[1].body["messages"];
    let sent = json!({"role": "assistant", "content": [words("Looking. "), search]});
    assert_eq!((again.as_array().unwrap().len(), &again[1]), (2, &sent), "{again}");
}

#[tokio::test]
async fn retry_event_reports_failure_and_plan() {
    let busy = json!({"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}});
    let server = Server::new([
        ("429 Too Many Requests\r\nretry-after-ms: 5", busy.to_string()),
        answer(&[words("hello")], "end_turn"),
    ]);
    let runtime = runtime(&server).await;
    let recorder = Recorder::default();
    let turn = with_model("claude-sonnet-4-6", "hi");
    let done = runtime.sessions().create(Default::default(), turn, watch(&recorder)).await.unwrap();
    assert_eq!(text(&done), "hello");
    let mut event = recorder.by_type("retrying").remove(0);
    let retry = event["retry"].take();
    let expected = json!({
        "type": "retrying", "attempt": 1, "max_attempts": 3, "delay_ms": 5,
        "error": "anthropic: HTTP 429: slow down", "retry": null,
    });
    assert_eq!(event, expected);
    let failure = json!({
        "provider": "anthropic", "kind": "rate_limited", "retry_after_ms": 5,
        "duration_ms": retry["failure"]["duration_ms"], "message": "HTTP 429: slow down",
    });
    let plan = json!({
        "attempt": 1, "max_retries": 3, "computed_delay_ms": retry["plan"]["computed_delay_ms"],
        "selected_delay_ms": 5, "retry_after_hint_ms": 5, "rate_limit_floor_applied": false,
        "budget_capped": false,
    });
    assert_eq!(retry, json!({"failure": failure, "plan": plan}));
}

#[tokio::test]
async fn unsupported_parameters_are_dropped_with_warning() {
    let item = json!({"type": "message", "id": "m", "content": [{"type": "output_text", "text": "ok"}]});
    let end = json!({"type": "response.completed", "response": {"output": [item]}});
    let server = Server::new([("200 OK", format!("data: {end}\n\n"))]);
    let runtime = runtime(&server).await;
    let params = object(json!({"seed": 1, "top_p": 0.5}));
    let turn = TurnOptions { provider_params: Some(params), ..with_model("gpt-5.5", "hi") };
    let done = runtime.sessions().create(Default::default(), turn, Default::default()).await.unwrap();
    assert_eq!(done.warnings, ["`gpt-5.5` does not support `seed`; ignoring it"]);
    let body = &server.seen()[0].body;
    assert_eq!((body.get("seed"), &body["top_p"]), (None, &json!(0.5)));
}

fn params(value: Value) -> TurnOptions {
    TurnOptions { provider_params: Some(object(value)), ..with_model("claude-sonnet-4-6", "hi") }
}

/// Returns the types of the tools in each request to the server.
fn tool_types(server: &Server) -> Vec<Vec<Value>> {
    let types = |body: &Value| {
        let tools = body.get("tools").and_then(Value::as_array).cloned().unwrap_or_default();
        tools.iter().map(|tool| tool["type"].clone()).collect()
    };
    server.seen().iter().map(|call| types(&call.body)).collect()
}

#[tokio::test]
async fn search_opt_out_survives_other_params() {
    let server = Server::new(vec![answer(&[words("ok")], "end_turn"); 6]);
    let runtime = runtime(&server).await;
    let sessions = runtime.sessions();
    let control = || Default::default();
    for off in [json!(null), json!(false)] {
        let first = sessions.create(Default::default(), params(json!({"web_search": off})), control());
        let id = first.await.unwrap().session_id;
        for turn in [params(json!({"top_k": 5})), params(json!({"web_search": true}))] {
            sessions.start_turn(id, turn, control()).await.unwrap();
        }
    }
    let on = vec![json!("web_search_20250305")];
    let one = [vec![], vec![], on];
    assert_eq!(tool_types(&server), [one.clone(), one].concat());
    assert_eq!(server.seen()[2].body["top_k"], 5, "other parameters are merged too");
}

#[tokio::test]
async fn help_runs_without_web_search() {
    let server = Server::new(vec![answer(&[words("ok")], "end_turn"); 2]);
    let runtime = runtime(&server).await;
    let call = || meerkat::operations::Call { runtime: runtime.clone(), control: Default::default() };
    let run = |name: &str, arguments| meerkat::operations::find(name).unwrap().call(call(), arguments);
    run("meerkat_run", json!({"prompt": "hi", "model": "claude-sonnet-4-6"})).await.unwrap();
    run("meerkat_help", json!({"question": "How?", "model": "claude-sonnet-4-6"})).await.unwrap();
    assert_eq!(tool_types(&server), [vec![json!("web_search_20250305")], vec![]]);
}
