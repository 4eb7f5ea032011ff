use meerkat_core::{ToolFailure, ToolOutput};
use meerkat_mcp::{ServerChange, ServerState};
use meerkat_testkit::Scratch;
use serde_json::{Value, json};

use crate::support::{LONG, call, create_set, names, odd, ready_set, run, tool, until, view};

#[tokio::test]
async fn tools_resources_and_prompts_can_be_read() {
    let set = ready_set(&[odd("odd", "well")]).await;
    assert_eq!(names(&set), ["odd__do", "mcp_resources", "mcp_prompts"]);
    assert_eq!(call(&set, "odd__do", json!({ "a": 1 })).await, ToolOutput::text("{\"a\":1}"));
    assert_eq!(
        call(&set, "mcp_resources", json!({ "server": "odd" })).await,
        ToolOutput::text("{\"resources\":[{\"uri\":\"odd://a\",\"name\":\"a\"}]}")
    );
    assert_eq!(
        call(&set, "mcp_resources", json!({ "server": "odd", "uri": "odd://a" })).await,
        ToolOutput::text("[resource odd://a]\nwhat is in it")
    );
    assert_eq!(
        call(&set, "mcp_prompts", json!({ "server": "odd", "name": "review" })).await,
        ToolOutput::text("review")
    );
    let failed = call(&set, "mcp_prompts", json!({ "server": "odd" })).await;
    assert_eq!(failed, ToolOutput::failure(ToolFailure::ExecutionFailed, "not known (-32601)"));
    set.close().await;
}

#[tokio::test]
async fn garbage_between_responses_is_skipped() {
    let set = ready_set(&[odd("odd", "garbage")]).await;
    assert_eq!(call(&set, "odd__do", json!({})).await, ToolOutput::text("{}"));
    set.close().await;
}

#[tokio::test]
async fn failed_call_returns_its_text() {
    let set = ready_set(&[odd("odd", "fails")]).await;
    let output = call(&set, "odd__do", json!({})).await;
    assert_eq!(output, ToolOutput { is_error: true, ..ToolOutput::text("out of ink") });
    set.close().await;
}

#[tokio::test]
async fn huge_response_fails_only_its_call() {
    let set = ready_set(&[odd("odd", "huge")]).await;
    let output = call(&set, "odd__do", json!({})).await;
    let message = "the server's response exceeds 16 MiB and was not read; request less data (-32603)";
    assert_eq!(output, ToolOutput::failure(ToolFailure::ExecutionFailed, message));
    assert_eq!(view(&set, "odd").state, ServerState::Ready);
    set.close().await;
}

#[tokio::test]
async fn call_without_response_is_cancelled() {
    let mut entry = odd("odd", "never-answers");
    entry["tool_timeout_secs"] = json!(1);
    let set = ready_set(&[entry]).await;
    let output = call(&set, "odd__do", json!({})).await;
    let message = "no response or progress from the server for 1 s; the call was cancelled. If the tool needs longer, \
                   set `tool_timeout_secs = 2` for `odd`";
    assert_eq!(output, ToolOutput::failure(ToolFailure::Timeout, message));
    until("the server is notified", || view(&set, "odd").stderr_tail.contains("a call was cancelled")).await;
    set.close().await;
}

#[tokio::test]
async fn abandoned_call_is_cancelled() {
    let set = ready_set(&[odd("odd", "never-answers")]).await;
    let tool = tool(&set, "odd__do");
    let calling = tokio::spawn(async move { run(&*tool, json!({})).await });
    tokio::task::yield_now().await;
    until("the call is aborted", || {
        calling.abort();
        calling.is_finished()
    })
    .await;
    // A call that never reached the server needs no cancellation, but this one does.
    let again = crate::support::tool(&set, "odd__do");
    let calling = tokio::time::timeout(std::time::Duration::from_millis(500), run(&*again, json!({})));
    assert!(calling.await.is_err());
    until("the server is notified", || view(&set, "odd").stderr_tail.contains("a call was cancelled")).await;
    set.close().await;
}

#[tokio::test]
async fn progress_keeps_a_slow_call_alive() {
    let mut entry = odd("odd", "progresses");
    entry["tool_timeout_secs"] = json!(1);
    let set = ready_set(&[entry]).await;
    assert_eq!(call(&set, "odd__do", json!({})).await, ToolOutput::text("done"));
    set.close().await;
}

#[tokio::test]
async fn server_that_exits_in_a_call_reconnects() {
    let set = ready_set(&[odd("odd", "dies-in-call")]).await;
    let output = call(&set, "odd__do", json!({})).await;
    let message = "server `odd` disconnected during the call, which may have taken effect";
    assert_eq!(output, ToolOutput::failure(ToolFailure::ExecutionFailed, message));
    until("it has reconnected", || {
        view(&set, "odd").restarts == 1 && view(&set, "odd").state == ServerState::Ready
    })
    .await;
    let again = view(&set, "odd");
    assert!(again.last_error.as_ref().is_some_and(|error| error.contains("I am gone")), "{again:?}");
    set.close().await;
}

#[tokio::test]
async fn changed_tools_are_relisted() {
    let set = ready_set(&[odd("odd", "changes")]).await;
    call(&set, "odd__do", json!({})).await;
    until("the new tool is listed", || names(&set).contains(&"odd__more".to_owned())).await;
    set.close().await;
}

#[tokio::test]
async fn looping_tool_lists_are_cut() {
    let set = ready_set(&[odd("loops", "loops"), odd("pages", "pages")]).await;
    let tools = |name: &str| view(&set, name).tools.into_iter().map(|tool| tool.exposed).collect::<Vec<_>>();
    assert_eq!(tools("loops"), ["loops__first", "loops__second"]);
    assert_eq!(view(&set, "loops").warnings, ["the tool list repeats itself; the rest was skipped"]);
    assert_eq!(tools("pages"), ["pages__first", "pages__second"]);
    assert_eq!(view(&set, "pages").warnings, ["tool 1: it has no name"]);
    set.close().await;
}

#[tokio::test]
async fn duplicate_tool_is_listed_once() {
    let set = ready_set(&[odd("odd", "repeats")]).await;
    assert_eq!(names(&set)[..2], ["odd__do", "odd__other"]);
    assert_eq!(view(&set, "odd").warnings, ["`do` is listed twice; using the first"]);
    set.close().await;
}

#[tokio::test]
async fn looping_resource_and_prompt_lists_are_cut() {
    let set = ready_set(&[odd("loops", "loops"), odd("pages", "pages")]).await;
    let listed = async |tool: &str, server: &str| -> Value {
        let output = call(&set, tool, json!({ "server": server })).await;
        serde_json::from_str(&output.content.to_text()).unwrap()
    };
    let entry = |name: &str| json!({ "uri": format!("odd://{name}"), "name": name });
    let template = json!({ "uriTemplate": "odd://{x}", "name": "x" });
    assert_eq!(
        listed("mcp_resources", "pages").await,
        json!({ "resources": [entry("a"), entry("b")], "resourceTemplates": [template] })
    );
    assert_eq!(listed("mcp_prompts", "pages").await, json!({ "prompts": [entry("a"), entry("b")] }));
    let note = "the list repeats itself; the rest was skipped";
    for (tool, key) in [("mcp_resources", "resources"), ("mcp_prompts", "prompts")] {
        let expected = json!({ key: [entry("a"), entry("a"), entry("a")], "note": note });
        assert_eq!(listed(tool, "loops").await, expected);
    }
    set.close().await;
}

#[tokio::test]
async fn server_hanging_in_a_listing_can_be_closed() {
    let mut entry = odd("odd", "changes-and-hangs");
    entry["connect_timeout_secs"] = json!(3600);
    let set = ready_set(&[entry]).await;
    call(&set, "odd__do", json!({})).await;
    until("the tools are requested again", || {
        view(&set, "odd").stderr_tail.contains("asked for the tools again")
    })
    .await;
    assert!(tokio::time::timeout(LONG, set.close()).await.is_ok(), "close waits for the list");
}

#[tokio::test]
async fn denied_tools_are_not_exposed() {
    let mut entry = odd("odd", "pages");
    entry["deny"] = json!(["first"]);
    let set = ready_set(&[entry]).await;
    assert_eq!(view(&set, "odd").tools.len(), 1);
    assert_eq!(names(&set)[0], "odd__second");
    set.close().await;
}

#[tokio::test]
async fn servers_never_share_a_tool_name() {
    let set = ready_set(&[odd("a", "pages"), odd("a__b", "pages")]).await;
    let mut all = names(&set);
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 6);
    set.stage(ServerChange::Remove("a".to_owned()));
    set.apply();
    assert!(!names(&set).contains(&"a__first".to_owned()));
    set.close().await;
}

#[tokio::test]
async fn tool_name_is_independent_of_later_servers() {
    let dir = Scratch::new();
    let go = dir.join("go");
    let mut late = odd("a", "waits");
    late["args"] = json!(["waits", go]);
    late["connect_timeout_secs"] = json!(60);
    // Without the hash, both tools would be named `a__b__do`.
    let set = create_set(&[late, odd("a__b", "well")]);
    until("the second is ready", || view(&set, "a__b").state == ServerState::Ready).await;
    let before = view(&set, "a__b").tools;
    std::fs::write(&go, "").unwrap();
    assert!(set.wait_until_ready(LONG).await);
    assert_eq!(view(&set, "a__b").tools, before);
    assert_eq!(names(&set)[..2], ["a__b__do".to_owned(), before[0].exposed.clone()]);
    set.close().await;
}

#[tokio::test]
async fn tool_of_a_removed_server_is_unavailable() {
    let set = create_set(&[odd("odd", "well")]);
    assert!(set.wait_until_ready(LONG).await);
    let tool = tool(&set, "odd__do");
    set.close().await;
    let output = run(&*tool, json!({})).await;
    assert_eq!(output, ToolOutput::failure(ToolFailure::Unavailable, "server `odd` was removed"));
}

#[tokio::test]
async fn late_response_is_ignored() {
    let mut entry = odd("odd", "late");
    entry["tool_timeout_secs"] = json!(1);
    let set = ready_set(&[entry]).await;
    let late = call(&set, "odd__do", json!({})).await;
    assert!(late.is_error && format!("{:?}", late.content).contains("timeout"), "{late:?}");
    assert_eq!(call(&set, "odd__do", json!({})).await, ToolOutput::text("in time"));
    set.close().await;
}

#[tokio::test]
async fn progress_does_not_extend_a_call_forever() {
    let mut entry = odd("odd", "progresses-forever");
    entry["tool_timeout_secs"] = json!(1);
    let set = ready_set(&[entry]).await;
    let output = call(&set, "odd__do", json!({})).await;
    assert!(output.is_error && format!("{:?}", output.content).contains("timeout"), "{output:?}");
    set.close().await;
}
