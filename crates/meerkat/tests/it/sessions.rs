//! Session state, listing, and history.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use meerkat::{
    ArchivedFilter, ErrorKind, NewSessionOptions, Outcome, Pending, Provider, RunControl, SessionId,
    SessionQuery, TurnOptions,
};
use meerkat_core::{ToolCall, ToolOutput, Usage};
use meerkat_testkit::{FnTool, Script, ScriptedModel, TestClock};
use serde_json::json;

use crate::world::{World, answers, client_tool, kind, say, text, then};

fn unknown() -> SessionId {
    "01936f8a-7b2c-7000-8000-000000000001".parse().unwrap()
}

#[tokio::test]
async fn later_runs_see_earlier_messages() {
    let world = World::new([Script::say("a"), Script::say("b")]);
    let id = world.session("one").await;
    let second = world.resume(id, then("two")).await.unwrap();
    assert_eq!(world.model.seen()[1].lines, ["user: one", "assistant: a", "user: two"]);
    let both = Usage { input_tokens: 20, output_tokens: 10, ..Usage::default() };
    assert_eq!(
        (second.report.steps, second.report.usage),
        (1, both),
        "steps of the run, usage of the session"
    );
    let view = world.sessions().read(id).await.unwrap();
    assert_eq!((view.message_count, view.usage), (4, both));
    assert_eq!((view.model.as_str(), view.provider), (ScriptedModel::ID, Provider::Other));
    assert!(view.created_at < view.updated_at);
}

#[tokio::test]
async fn sessions_are_listed_by_change_time_and_labels() {
    let world = World::new([]);
    let mut ids = Vec::new();
    for (team, name) in [("x", "a"), ("y", "b"), ("x", "c")] {
        let labels = [("team", team), ("name", name)].map(|(key, value)| (key.to_owned(), value.to_owned()));
        let options = NewSessionOptions { labels: labels.into() };
        let done = world.sessions().create(options, say("hi"), RunControl::default()).await.unwrap();
        ids.push(done.session_id);
    }
    world.resume(ids[0], then("again")).await.unwrap();

    let list = async |labels: &[(&str, &str)], offset, limit| {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let query = SessionQuery { labels, offset, limit, archived: ArchivedFilter::Hidden };
        let views = world.sessions().list(query).await.unwrap();
        views.into_iter().map(|view| view.labels["name"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(list(&[], 0, None).await, ["a", "c", "b"]);
    assert_eq!(list(&[], 1, Some(1)).await, ["c"]);
    assert_eq!(list(&[], 3, None).await, [""; 0]);
    assert_eq!(list(&[("team", "x")], 0, None).await, ["a", "c"]);
    assert_eq!(list(&[("team", "x"), ("name", "c")], 0, None).await, ["c"]);
    assert_eq!(list(&[("team", "z")], 0, None).await, [""; 0]);
    let labels: BTreeMap<_, _> =
        [("name", "b"), ("team", "y")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    assert_eq!(world.sessions().read(ids[1]).await.unwrap().labels, labels);
}

#[tokio::test]
async fn history_is_paged_up_to_its_end() {
    let world = World::new([Script::say("b"), Script::say("d")]);
    let id = world.session("a").await;
    world.resume(id, then("c")).await.unwrap();
    let cases: [(u64, Option<u64>, u64, &[&str]); 7] = [
        (0, None, 0, &["user: a", "assistant: b", "user: c", "assistant: d"]),
        (0, Some(2), 0, &["user: a", "assistant: b"]),
        (1, Some(2), 1, &["assistant: b", "user: c"]),
        (3, Some(u64::MAX), 3, &["assistant: d"]),
        (4, None, 4, &[]),
        (u64::MAX, Some(5), 4, &[]),
        (2, Some(0), 2, &[]),
    ];
    for (offset, limit, from, lines) in cases {
        let page = world.sessions().history(id, offset, limit).await.unwrap();
        let found: Vec<_> = page.messages.iter().map(meerkat_testkit::message_line).collect();
        assert_eq!(
            (page.message_count, page.offset, found.as_slice()),
            (4, from, &*own(lines)),
            "{offset} {limit:?}"
        );
    }
}

fn own(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

#[tokio::test]
async fn last_text_is_found_far_back() {
    let calls = (0..20).map(|n| Script::call(&format!("c{n}"), "look", json!({})));
    let script = [Script::say("first"), Script::say("second")].into_iter().chain(calls);
    let look = FnTool::new("look", async |_| ToolOutput::text("nothing"));
    let world = World::with(ScriptedModel::new(script), [look]);
    world.configure(json!({"agent": {"max_turns": 20}})).await;
    let id = world.session("one").await;
    assert_eq!(world.sessions().last_text(id).await.unwrap().as_deref(), Some("first"));
    world.resume(id, then("two")).await.unwrap();
    assert_eq!(kind(world.resume(id, then("three")).await), ErrorKind::AgentError);
    assert_eq!(world.lines(id).await.len(), 45);
    assert_eq!(world.sessions().last_text(id).await.unwrap().as_deref(), Some("second"));
}

#[tokio::test]
async fn run_resumes_with_callback_results() {
    let calls = [("c1", "ask"), ("c2", "look"), ("c3", "ask")];
    let calls = calls.map(|(id, name)| (id.to_owned(), name.to_owned(), json!({"of": id})));
    let look = FnTool::new("look", async |_| ToolOutput::text("seen"));
    let model = ScriptedModel::new([Script::Call(calls.to_vec()), Script::say("thanks")]);
    let world = World::with(model, [look]);
    let turn = TurnOptions { tools: Some(vec![client_tool("ask", None)]), ..say("go") };
    let waiting = world.create(turn).await.unwrap();
    let call = |id: &str| ToolCall { id: id.to_owned(), name: "ask".to_owned(), args: json!({"of": id}) };
    assert_eq!(
        waiting.report.outcome,
        Outcome::Pending(Pending { calls: vec![call("c1"), call("c3")], approvals: vec![] })
    );
    let id = waiting.session_id;
    assert_eq!(world.sessions().pending_calls(id).await.unwrap().calls, [call("c1"), call("c3")]);
    assert!(!world.sessions().read(id).await.unwrap().is_active);

    for bad in
        [answers([("c1", "1")]), answers([("c2", "1"), ("c3", "3")]), answers([("c1", "1"), ("c1", "1")])]
    {
        assert_eq!(kind(world.resume(id, bad).await), ErrorKind::InvalidParams);
    }
    assert_eq!(
        world.sessions().pending_calls(id).await.unwrap().calls.len(),
        2,
        "the pending calls are unchanged"
    );

    let done = world.resume(id, answers([("c3", "three"), ("c1", "one")])).await.unwrap();
    assert_eq!((text(&done), done.report.tool_calls), ("thanks", 2));
    assert_eq!(world.model.seen()[1].lines[2], "results: c1=one, c2=seen, c3=three");
    assert_eq!(world.sessions().pending_calls(id).await.unwrap(), Pending::default());
    assert_eq!(kind(world.resume(id, answers([("c1", "late")])).await), ErrorKind::InvalidParams);
}

#[tokio::test]
async fn prompt_without_results_supersedes_pending_calls() {
    let world = World::new([Script::call("c1", "ask", json!({})), Script::say("never mind")]);
    let turn = TurnOptions { tools: Some(vec![client_tool("ask", Some("callback"))]), ..say("go") };
    let id = world.create(turn).await.unwrap().session_id;
    world.resume(id, then("forget it")).await.unwrap();
    let superseded = r#"results: c1={"error":"superseded","message":"superseded by new input"}"#;
    assert_eq!(world.model.seen()[1].lines[2..], [superseded, "user: forget it"]);
}

#[tokio::test]
async fn callback_tools_stay_until_replaced() {
    let world = World::new([]);
    let turn = TurnOptions { tools: Some(vec![client_tool("one", None)]), ..say("go") };
    let id = world.create(turn).await.unwrap().session_id;
    for tools in [None, Some(Vec::new()), Some(vec![client_tool("two", None)]), None] {
        world.resume(id, TurnOptions { tools, ..then("continue") }).await.unwrap();
    }
    let tools: Vec<_> = world.model.seen().into_iter().map(|seen| seen.tools.join(" ")).collect();
    assert_eq!(tools, ["one", "one", "one", "two", "two"]);
}

#[tokio::test]
async fn callback_tool_shadows_a_local_tool() {
    let look = FnTool::new("look", async |_| ToolOutput::text("ours"));
    let world = World::with(ScriptedModel::new([Script::call("c1", "look", json!({}))]), [look]);
    let turn = TurnOptions { tools: Some(vec![client_tool("look", None)]), ..say("go") };
    let done = world.create(turn).await.unwrap();
    assert!(matches!(done.report.outcome, Outcome::Pending(_)), "{:?}", done.report);
    assert_eq!(world.model.seen()[0].tools, ["look"]);
}

#[tokio::test]
async fn options_no_run_could_use_are_rejected() {
    let world = World::new([]);
    let tools = |tools: Vec<_>| TurnOptions { tools: Some(tools), ..TurnOptions::default() };
    let cases = [
        (
            tools(vec![client_tool("even", Some("callback")), client_tool("odd", Some("robot"))]),
            "`tools[1].handler`: unknown handler `robot`; use `callback`, or omit the field",
        ),
        (
            tools(vec![client_tool("a b", None)]),
            "`tools[0].name`: `a b` must have 1 to 64 letters, digits, `_` or `-`",
        ),
        (
            TurnOptions { max_tokens: Some(0), ..TurnOptions::default() },
            "`max_tokens` must be greater than 0; omit it to use the config's limit",
        ),
        (
            TurnOptions { structured_output_retries: Some(101), ..TurnOptions::default() },
            "`structured_output_retries` must be at most 100",
        ),
    ];
    let id = world.session("hi").await;
    for (options, message) in cases {
        let turn = |turn: TurnOptions| TurnOptions { input: turn.input, ..options.clone() };
        let results = [world.create(turn(say("go"))).await, world.resume(id, turn(then("go"))).await];
        for error in results.map(Result::unwrap_err) {
            assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::InvalidParams, message));
        }
    }
    assert_eq!(world.model.seen().len(), 1, "no other run was started");
}

#[tokio::test]
async fn model_change_persists() {
    let world = World::new([Script::say("scripted")]);
    let id = world.session("hi").await;
    let swap = TurnOptions { model: Some("offline".to_owned()), ..then("say swapped") };
    let swapped = world.resume(id, swap).await.unwrap();
    assert_eq!((swapped.model.as_str(), text(&swapped)), ("offline", "swapped"));
    assert_eq!(world.resume(id, then("say still")).await.unwrap().model, "offline");
    assert_eq!(world.sessions().read(id).await.unwrap().model, "offline");

    let unknown_model = TurnOptions { model: Some("gpt-0".to_owned()), ..then("hi") };
    assert_eq!(kind(world.resume(id, unknown_model).await), ErrorKind::ProviderError);
    let wrong = TurnOptions { provider: Some(Provider::OpenAi), ..say("hi") };
    assert_eq!(kind(world.resume(id, wrong).await), ErrorKind::ProviderError);
    let view = world.sessions().read(id).await.unwrap();
    assert_eq!(
        (view.model.as_str(), view.message_count),
        ("offline", 6),
        "a rejected run leaves no messages"
    );
}

#[tokio::test]
async fn prompts_and_instructions_stay_until_replaced() {
    let world = World::new([]);
    let own = |prompt: Option<&str>, instructions: Option<&[&str]>, turn| TurnOptions {
        system_prompt: prompt.map(str::to_owned),
        instructions: instructions.map(own),
        ..turn
    };
    let id =
        world.create(own(Some("Be a cat."), Some(&["Purr.", "Nap."]), say("hi"))).await.unwrap().session_id;
    let changes: [(Option<&str>, Option<&[&str]>); 4] =
        [(None, None), (Some("Be a dog."), None), (None, Some(&["Bark."])), (None, Some(&[]))];
    for (prompt, instructions) in changes {
        world.resume(id, own(prompt, instructions, then("continue"))).await.unwrap();
    }
    let systems: Vec<_> = world.model.seen().into_iter().map(|seen| seen.system).collect();
    let expected = [
        "Be a cat.\n\nPurr.\n\nNap.",
        "Be a cat.\n\nPurr.\n\nNap.",
        "Be a dog.\n\nPurr.\n\nNap.",
        "Be a dog.\n\nBark.",
        "Be a dog.",
    ];
    assert_eq!(systems, expected);
    assert_eq!(world.lines(id).await.len(), 10, "prompts and instructions are not part of the history");
}

#[tokio::test]
async fn archived_session_cannot_be_resumed() {
    let world = World::new([]);
    let id = world.session("hi").await;
    world.sessions().archive(id).await.unwrap();
    assert_eq!(kind(world.sessions().archive(id).await), ErrorKind::SessionNotFound);
    assert_eq!(kind(world.resume(id, then("continue")).await), ErrorKind::SessionNotFound);
    assert_eq!(world.model.seen().len(), 1);
}

#[tokio::test]
async fn run_of_archived_session_is_not_resumable() {
    let world = World::new([Script::say("one"), Script::Hang, Script::Hang]);
    let id = world.session("hi").await;
    let running = world.start(id, then("two"), RunControl::default());
    world.model.wait_for_requests(2).await;
    world.sessions().interrupt(id).await.unwrap();
    let interrupted = running.await.unwrap().unwrap_err();
    assert_eq!(interrupted.to_string(), "the run was interrupted; the session can be resumed");
    assert_eq!(interrupted.data().unwrap()["resumable"], true);

    let running = world.start(id, then("three"), RunControl::default());
    world.model.wait_for_requests(3).await;
    world.sessions().archive(id).await.unwrap();
    let archived = running.await.unwrap().unwrap_err();
    assert_eq!(archived.to_string(), "the run was interrupted; the session was archived");
    assert_eq!(archived.data().unwrap()["resumable"], false);
}

#[tokio::test]
async fn unknown_session_is_not_found() {
    let world = World::new([]);
    let sessions = world.sessions();
    let kinds = [
        kind(sessions.read(unknown()).await),
        kind(sessions.history(unknown(), 0, None).await),
        kind(sessions.last_text(unknown()).await),
        kind(sessions.interrupt(unknown()).await),
        kind(sessions.archive(unknown()).await),
        kind(world.resume(unknown(), then("hi")).await),
    ];
    assert_eq!(kinds, [ErrorKind::SessionNotFound; 6]);
}

#[tokio::test]
async fn rejected_first_run_leaves_no_session() {
    let world = World::new([]);
    assert_eq!(kind(world.create(say(" \n")).await), ErrorKind::InvalidParams);
    let unknown_model = TurnOptions { model: Some("gpt-0".to_owned()), ..then("hi") };
    assert_eq!(kind(world.create(unknown_model).await), ErrorKind::ProviderError);
    assert_eq!(world.sessions().list(SessionQuery::default()).await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn usage_belongs_to_the_day_of_its_run() {
    let world = World::in_memory([], [], Some(Arc::new(TestClock::start())));
    let id = world.session("today").await;
    tokio::time::sleep(Duration::from_secs(86_400)).await;
    world.resume(id, then("tomorrow")).await.unwrap();
    world.resume(id, then("again")).await.unwrap();
    let rows = world.sessions().usage().await.unwrap();
    let days: Vec<_> =
        rows.iter().map(|row| (row.session, row.day.to_string(), row.usage.input_tokens)).collect();
    let expected = [(id, "2026-01-01T00:00:00Z".to_owned(), 10), (id, "2026-01-02T00:00:00Z".to_owned(), 20)];
    assert_eq!(days, expected);
}
