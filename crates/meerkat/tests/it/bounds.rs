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
