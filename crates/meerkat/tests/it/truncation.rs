//! Reply limits: long texts are truncated and stored in full, and histories are paged.

use meerkat::{ErrorKind, TurnOptions};
use meerkat_testkit::{Script, ScriptedModel};
use serde_json::{Value, json};

use crate::world::{World, answers, call, client_tool, fits, say};

const LIMIT: usize = 2048;

/// Creates a world whose replies are limited to two kilobytes.
async fn world(script: impl IntoIterator<Item = Script>) -> World {
    let world = World::new(script);
    world.configure(json!({"limits": {"max_reply_bytes": LIMIT}})).await;
    world
}

/// Returns a text in which no part repeats.
fn long(lines: usize) -> String {
    (0..lines).map(|line| format!("line {line} of the é answer\n")).collect()
}

/// Returns the media type and text of a blob.
async fn blob(world: &World, id: &Value) -> (String, String) {
    let reply = call(world, "meerkat_blob_get", json!({"blob_id": id})).await.unwrap();
    fits("meerkat_blob_get", &reply);
    assert_eq!(&reply["blob_id"], id);
    let bytes = world.runtime.blob(&id.as_str().unwrap().parse().unwrap()).await.unwrap();
    (reply["media_type"].as_str().unwrap().to_owned(), String::from_utf8(bytes.data).unwrap())
}

#[tokio::test]
async fn long_answer_is_truncated_and_stored_in_full() {
    let text = long(500);
    let world = world([Script::say(&text)]).await;
    let arguments = json!({"prompt": "hi", "model": ScriptedModel::ID});
    let reply = call(&world, "meerkat_run", arguments).await.unwrap();
    fits("meerkat_run", &reply);
    let truncated = reply["content"][0]["text"].as_str().unwrap();
    let id = reply["blob_id"].as_str().unwrap();
    assert!(truncated.len() < LIMIT + 200, "{}", truncated.len());
    assert!(
        truncated.starts_with("line 0 of") && truncated.ends_with("line 499 of the é answer\n"),
        "{truncated}"
    );
    let note = format!("bytes omitted; meerkat_blob_get with blob_id {id} returns the full text …]");
    assert!(truncated.contains(&note), "{truncated}");
    assert_eq!(blob(&world, &reply["blob_id"]).await, ("text/plain".to_owned(), text));

    let read = call(&world, "meerkat_read", json!({"session_id": reply["session_id"]})).await.unwrap();
    fits("meerkat_read", &read);
    assert_eq!(read["state"]["last_assistant_text"], reply["content"][0]["text"]);
    assert_eq!(read["state"]["last_assistant_blob_id"], reply["blob_id"]);
}

#[tokio::test]
async fn short_answer_is_unchanged() {
    let text = "x".repeat(LIMIT);
    let world = world([Script::say(&text)]).await;
    let arguments = json!({"prompt": "hi", "model": ScriptedModel::ID});
    let reply = call(&world, "meerkat_run", arguments).await.unwrap();
    assert_eq!((&reply["content"][0]["text"], reply.get("blob_id")), (&json!(text), None));
}

#[tokio::test]
async fn structured_output_is_never_truncated() {
    let value = json!({"text": long(300)});
    let world = world([Script::say("here"), Script::say(&value.to_string())]).await;
    let arguments = json!({"prompt": "hi", "model": ScriptedModel::ID, "output_schema": {"type": "object"}});
    let reply = call(&world, "meerkat_run", arguments).await.unwrap();
    assert_eq!(reply["structured_output"], value);
}

#[tokio::test]
async fn history_pages_fit_and_chain() {
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
async fn long_messages_are_truncated_and_stored_in_full() {
    let args = json!({"numbers": (0..5000).collect::<Vec<_>>()});
    let script = [Script::Call(vec![("c1".to_owned(), "ask".to_owned(), args)]), Script::say(&long(300))];
    let world = world(script).await;
    let tools = Some(vec![client_tool("ask", None)]);
    let id = world.create(TurnOptions { tools, ..say(&long(400)) }).await.unwrap().session_id;
    world.resume(id, answers([("c1", &long(500))])).await.unwrap();
    let full = world.sessions().history(id, 0, None).await.unwrap().messages;
    for (offset, message) in full.iter().enumerate() {
        let arguments = json!({"session_id": id, "offset": offset, "limit": 1});
        let page = call(&world, "meerkat_history", arguments).await.unwrap();
        fits("meerkat_history", &page);
        let truncated = &page["messages"][0];
        assert!(truncated.to_string().len() < 2 * LIMIT, "{truncated}");
        assert!(truncated.to_string().contains("bytes omitted"), "{truncated}");
        let (media_type, text) = blob(&world, &truncated["blob_id"]).await;
        assert_eq!(media_type, "application/json");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), serde_json::to_value(message).unwrap());
    }
}

#[tokio::test]
async fn unknown_blob_is_rejected() {
    let world = World::new([]);
    let id = format!("sha256:{}", "0".repeat(64));
    let error = call(&world, "meerkat_blob_get", json!({"blob_id": id})).await.unwrap_err();
    let body = error.body();
    assert_eq!(
        (error.kind(), body.data),
        (ErrorKind::InvalidParams, Some(json!({"type": "blob_not_found", "blob_id": id})))
    );
    let malformed = call(&world, "meerkat_blob_get", json!({"blob_id": "x"})).await.unwrap_err();
    assert_eq!(
        malformed.to_string(),
        "`blob_id`: `x` is not a blob id; expected `sha256:` and 64 hexadecimal digits"
    );
}

#[tokio::test]
async fn session_list_pages_fit_and_chain() {
    let world = world([]).await;
    let mut created = Vec::new();
    for _ in 0..23 {
        created.push(json!(world.session("hi").await));
    }
    created.reverse();
    let (mut offset, mut ids, mut pages) = (json!(null), Vec::new(), 0);
    loop {
        let page = call(&world, "meerkat_sessions", json!({"offset": offset})).await.unwrap();
        fits("meerkat_sessions", &page);
        assert!(page.to_string().len() <= LIMIT + 100, "{page}");
        pages += 1;
        ids.extend(page["sessions"].as_array().unwrap().iter().map(|entry| entry["session_id"].clone()));
        if page.get("next_offset").is_none() {
            break;
        }
        assert_eq!(page["next_offset"], json!(ids.len()));
        offset = page["next_offset"].clone();
    }
    assert_eq!(ids, created);
    assert!((3..=12).contains(&pages), "{pages}");
    let few = call(&world, "meerkat_sessions", json!({"limit": 2, "offset": 20})).await.unwrap();
    assert_eq!((few["sessions"].as_array().unwrap().len(), &few["next_offset"]), (2, &json!(22)));
    let last = call(&world, "meerkat_sessions", json!({"limit": 2, "offset": 21})).await.unwrap();
    assert_eq!((last["sessions"].as_array().unwrap().len(), last.get("next_offset")), (2, None));
    let none = call(&world, "meerkat_sessions", json!({"limit": 0})).await.unwrap();
    assert_eq!(none, json!({"sessions": [], "next_offset": 0}));
}

#[tokio::test]
async fn oversized_labels_are_rejected() {
    let world = world([]).await;
    let labels = json!({"note": "x".repeat(9000)});
    let error = call(&world, "meerkat_run", json!({"prompt": "hi", "labels": labels})).await.unwrap_err();
    assert_eq!(error.to_string(), "`labels` have 9004 bytes together, which is more than 8192");
}

#[tokio::test]
async fn pending_arguments_are_truncated_and_stored() {
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
    for (call, full) in pending.iter().zip([&long, &many]) {
        assert!(call["args"].to_string().contains("bytes omitted"), "{call}");
        let (media_type, text) = blob(&world, &call["args_blob_id"]).await;
        assert_eq!(media_type, "application/json");
        assert_eq!(&serde_json::from_str::<Value>(&text).unwrap(), full);
    }
    let expected = json!({"tool_use_id": "c", "tool_name": "write", "args": short});
    assert_eq!(pending[2], expected);
}

#[tokio::test]
async fn event_with_many_texts_is_truncated() {
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
    assert!(payload["args"].to_string().contains("bytes omitted"), "{payload}");
    let (_, full) = blob(&world, &found["event"]["blob_id"]).await;
    assert_eq!(serde_json::from_str::<Value>(&full).unwrap()["payload"]["args"], args);
}
