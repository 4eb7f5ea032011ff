//! Replies that fit: long texts are shown in part and kept whole, histories come in pages.

use meerkat::{ErrorKind, TurnOptions};
use meerkat_testkit::{Script, ScriptedModel};
use serde_json::{Value, json};

use crate::world::{World, answers, call, client_tool, fits, say};

const LIMIT: usize = 2048;

/// A realm whose replies have at most two kilobytes.
async fn world(script: impl IntoIterator<Item = Script>) -> World {
    let world = World::new(script);
    world.configure(json!({"limits": {"max_reply_bytes": LIMIT}})).await;
    world
}

/// A text that is nowhere like itself.
fn long(lines: usize) -> String {
    (0..lines).map(|line| format!("line {line} of the é answer\n")).collect()
}

/// The bytes of a blob.
async fn blob(world: &World, id: &Value) -> (String, String) {
    let reply = call(world, "meerkat_blob_get", json!({"blob_id": id})).await.unwrap();
    fits("meerkat_blob_get", &reply);
    assert_eq!(&reply["blob_id"], id);
    let bytes = world.runtime.blob(&id.as_str().unwrap().parse().unwrap()).await.unwrap();
    (reply["media_type"].as_str().unwrap().to_owned(), String::from_utf8(bytes.data).unwrap())
}

#[tokio::test]
async fn a_long_answer_is_shown_as_head_and_tail_and_kept_whole() {
    let text = long(500);
    let world = world([Script::say(&text)]).await;
    let arguments = json!({"prompt": "hi", "model": ScriptedModel::ID});
    let reply = call(&world, "meerkat_run", arguments).await.unwrap();
    fits("meerkat_run", &reply);
    let shown = reply["content"][0]["text"].as_str().unwrap();
    let id = reply["blob_id"].as_str().unwrap();
    assert!(shown.len() < LIMIT + 200, "{}", shown.len());
    assert!(shown.starts_with("line 0 of") && shown.ends_with("line 499 of the é answer\n"), "{shown}");
    let note = format!("bytes left out; meerkat_blob_get with blob_id {id} gives the whole …]");
    assert!(shown.contains(&note), "{shown}");
    assert_eq!(blob(&world, &reply["blob_id"]).await, ("text/plain".to_owned(), text));

    let read = call(&world, "meerkat_read", json!({"session_id": reply["session_id"]})).await.unwrap();
    fits("meerkat_read", &read);
    assert_eq!(read["state"]["last_assistant_text"], reply["content"][0]["text"]);
    assert_eq!(read["state"]["last_assistant_blob_id"], reply["blob_id"]);
}

#[tokio::test]
async fn an_answer_that_fits_is_shown_as_it_is() {
    let text = "x".repeat(LIMIT);
    let world = world([Script::say(&text)]).await;
    let arguments = json!({"prompt": "hi", "model": ScriptedModel::ID});
    let reply = call(&world, "meerkat_run", arguments).await.unwrap();
    assert_eq!((&reply["content"][0]["text"], reply.get("blob_id")), (&json!(text), None));
}

#[tokio::test]
async fn a_structured_output_is_never_cut() {
    let value = json!({"text": long(300)});
    let world = world([Script::say("here"), Script::say(&value.to_string())]).await;
    let arguments = json!({"prompt": "hi", "model": ScriptedModel::ID, "output_schema": {"type": "object"}});
    let reply = call(&world, "meerkat_run", arguments).await.unwrap();
    assert_eq!(reply["structured_output"], value);
}

#[tokio::test]
async fn a_history_comes_in_pages_that_fit_and_lead_on() {
    let world = world((0..8).map(|_| Script::say(&"y".repeat(600)))).await;
    let id = world.session("begin").await;
    for _ in 1..8 {
        world.resume(id, crate::world::then("go on")).await.unwrap();
    }
    let (mut offset, mut pages, mut roles) = (json!(null), 0, Vec::new());
    loop {
        let arguments = json!({"session_id": id, "offset": offset});
        let page = call(&world, "meerkat_history", arguments).await.unwrap();
        fits("meerkat_history", &page);
        assert!(page["messages"].to_string().len() <= LIMIT + 100);
        pages += 1;
        let messages = page["messages"].as_array().unwrap();
        roles.extend(messages.iter().map(|message| message["role"].as_str().unwrap().to_owned()));
        if page["has_more"] == false {
            assert_eq!(page.get("next_offset"), None);
            break;
        }
        assert_eq!(page["next_offset"], json!(roles.len()));
        offset = page["next_offset"].clone();
    }
    assert_eq!(roles, ["user", "block_assistant"].repeat(8));
    assert!((3..=8).contains(&pages), "{pages}");
    let two = call(&world, "meerkat_history", json!({"session_id": id, "limit": 2})).await.unwrap();
    assert_eq!((&two["limit"], &two["next_offset"]), (&json!(2), &json!(2)));
    assert_eq!(two["messages"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_message_that_is_too_long_is_shown_in_part_whatever_it_holds() {
    let args = json!({"numbers": (0..5000).collect::<Vec<_>>()});
    let script = [Script::Call(vec![("c1".to_owned(), "ask".to_owned(), args)]), Script::say(&long(300))];
    let world = world(script).await;
    let tools = Some(vec![client_tool("ask", None)]);
    let id = world.create(TurnOptions { tools, ..say(&long(400)) }).await.unwrap().session_id;
    world.resume(id, answers([("c1", &long(500))])).await.unwrap();
    let whole = world.sessions().history(id, 0, None).await.unwrap().messages;
    for (offset, message) in whole.iter().enumerate() {
        let arguments = json!({"session_id": id, "offset": offset, "limit": 1});
        let page = call(&world, "meerkat_history", arguments).await.unwrap();
        fits("meerkat_history", &page);
        let shown = &page["messages"][0];
        assert!(shown.to_string().len() < 2 * LIMIT, "{shown}");
        assert!(shown.to_string().contains("bytes left out"), "{shown}");
        let (media_type, text) = blob(&world, &shown["blob_id"]).await;
        assert_eq!(media_type, "application/json");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), serde_json::to_value(message).unwrap());
    }
}

#[tokio::test]
async fn a_blob_that_is_not_there_is_refused() {
    let world = World::new([]);
    let id = format!("sha256:{}", "0".repeat(64));
    let error = call(&world, "meerkat_blob_get", json!({"blob_id": id})).await.unwrap_err();
    let body = error.body();
    assert_eq!(
        (error.kind(), body.data),
        (ErrorKind::InvalidParams, Some(json!({"type": "blob_not_found", "blob_id": id})))
    );
    let malformed = call(&world, "meerkat_blob_get", json!({"blob_id": "x"})).await.unwrap_err();
    assert_eq!(malformed.to_string(), "`x` is not a blob id; expected `sha256:` and 64 hexadecimal digits");
}

#[tokio::test]
async fn a_list_of_sessions_comes_in_pages_that_fit_and_lead_on() {
    let world = world([]).await;
    let mut made = Vec::new();
    for _ in 0..23 {
        made.push(json!(world.session("hi").await));
    }
    made.reverse();
    let (mut offset, mut listed, mut pages) = (json!(null), Vec::new(), 0);
    loop {
        let page = call(&world, "meerkat_sessions", json!({"offset": offset})).await.unwrap();
        fits("meerkat_sessions", &page);
        assert!(page.to_string().len() <= LIMIT + 100, "{page}");
        pages += 1;
        listed.extend(page["sessions"].as_array().unwrap().iter().map(|entry| entry["session_id"].clone()));
        if page.get("next_offset").is_none() {
            break;
        }
        assert_eq!(page["next_offset"], json!(listed.len()));
        offset = page["next_offset"].clone();
    }
    assert_eq!(listed, made);
    assert!((3..=12).contains(&pages), "{pages}");
    let few = call(&world, "meerkat_sessions", json!({"limit": 2, "offset": 20})).await.unwrap();
    assert_eq!((few["sessions"].as_array().unwrap().len(), &few["next_offset"]), (2, &json!(22)));
    let last = call(&world, "meerkat_sessions", json!({"limit": 2, "offset": 21})).await.unwrap();
    assert_eq!((last["sessions"].as_array().unwrap().len(), last.get("next_offset")), (2, None));
    let none = call(&world, "meerkat_sessions", json!({"limit": 0})).await.unwrap();
    assert_eq!(none, json!({"sessions": [], "next_offset": 0}));
}

#[tokio::test]
async fn labels_that_no_list_could_hold_are_refused() {
    let world = world([]).await;
    let labels = json!({"note": "x".repeat(9000)});
    let error = call(&world, "meerkat_run", json!({"prompt": "hi", "labels": labels})).await.unwrap_err();
    assert_eq!(error.to_string(), "`labels` have 9004 bytes together, which is more than 8192");
}

#[tokio::test]
async fn arguments_of_pending_calls_are_shown_in_part_and_kept_whole() {
    let long = json!({"path": "/tmp/a", "text": long(300), "mode": 7});
    let many = json!({"names": (0..2000).map(|n| format!("n{n}")).collect::<Vec<_>>()});
    let short = json!({"path": "/tmp/b"});
    let arguments = [long.clone(), many.clone(), short.clone()];
    let calls = arguments.into_iter().zip(["a", "b", "c"]);
    let calls = calls.map(|(args, id)| (id.to_owned(), "write".to_owned(), args)).collect();
    let world = world([Script::Call(calls)]).await;
    let tool = json!({"name": "write", "description": "Writes.", "input_schema": {"type": "object"}});
    let run = json!({"prompt": "go", "model": ScriptedModel::ID, "tools": [tool]});
    let reply = call(&world, "meerkat_run", run).await.unwrap();
    fits("meerkat_run", &reply);
    let read = call(&world, "meerkat_read", json!({"session_id": reply["session_id"]})).await.unwrap();
    fits("meerkat_read", &read);
    assert_eq!(read["state"]["pending_tool_calls"], reply["pending_tool_calls"]);
    let pending = reply["pending_tool_calls"].as_array().unwrap();
    assert!(reply.to_string().len() < 3 * LIMIT, "{reply}");
    assert_eq!((&pending[0]["args"]["path"], &pending[0]["args"]["mode"]), (&json!("/tmp/a"), &json!(7)));
    for (call, whole) in pending.iter().zip([&long, &many]) {
        assert!(call["args"].to_string().contains("bytes left out"), "{call}");
        let (media_type, text) = blob(&world, &call["args_blob_id"]).await;
        assert_eq!(media_type, "application/json");
        assert_eq!(&serde_json::from_str::<Value>(&text).unwrap(), whole);
    }
    let expected = json!({"tool_use_id": "c", "tool_name": "write", "args": short});
    assert_eq!(pending[2], expected);
}

#[tokio::test]
async fn an_event_with_many_small_texts_is_shown_in_part() {
    let args = json!({"names": (0..3000).map(|n| format!("n{n}")).collect::<Vec<_>>()});
    let world =
        world([Script::say("one"), Script::call("c1", "look", args.clone()), Script::say("two")]).await;
    let id = world.session("hi").await;
    let opened = call(&world, "meerkat_event_stream_open", json!({"session_id": id})).await.unwrap();
    world.resume(id, crate::world::then("go")).await.unwrap();
    let read = json!({"stream_id": opened["stream_id"], "timeout_ms": 0});
    let found = loop {
        let reply = call(&world, "meerkat_event_stream_read", read.clone()).await.unwrap();
        fits("meerkat_event_stream_read", &reply);
        if reply["event"]["payload"]["type"] == "tool_call_requested" {
            break reply;
        }
    };
    assert!(found.to_string().len() < 2 * LIMIT, "{found}");
    let payload = &found["event"]["payload"];
    assert_eq!((&payload["id"], &payload["name"]), (&json!("c1"), &json!("look")));
    assert!(payload["args"].to_string().contains("bytes left out"), "{payload}");
    let (_, whole) = blob(&world, &found["event"]["blob_id"]).await;
    assert_eq!(serde_json::from_str::<Value>(&whole).unwrap()["payload"]["args"], args);
}
