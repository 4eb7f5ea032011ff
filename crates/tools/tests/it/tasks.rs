//! Tasks.

use serde_json::json;

use crate::support::World;

#[tokio::test]
async fn task_is_created_found_and_updated() {
    let world = World::new();
    let task =
        world.json("task_create", json!({ "subject": "s", "description": "d", "labels": ["x"] })).await;
    let id = task["id"].clone();
    let session = world.session.to_string();
    let now = "2026-03-01T12:30:45Z";
    assert_eq!(
        task,
        json!({
            "id": id, "subject": "s", "description": "d", "status": "pending", "priority": "medium", "labels": ["x"],
            "blocks": [], "blocked_by": [], "created_at": now, "updated_at": now, "created_by_session": session,
            "updated_by_session": session, "metadata": {},
        })
    );
    let change = json!({
        "id": id, "status": "in_progress", "add_blocks": ["b", "b"], "metadata": { "k": 1, "gone": null }, "owner": "me",
    });
    let changed = world.json("task_update", change).await;
    assert_eq!(
        (
            &changed["status"],
            &changed["blocks"],
            &changed["metadata"],
            &changed["owner"],
            &changed["subject"]
        ),
        (&json!("in_progress"), &json!(["b"]), &json!({ "k": 1 }), &json!("me"), &json!("s"))
    );
    assert_eq!(world.json("task_get", json!({ "id": id })).await, changed);
    assert_eq!(
        world.json("task_list", json!({ "status": "in_progress", "labels": ["x", "y"] })).await,
        json!([changed])
    );
    assert_eq!(world.json("task_list", json!({ "status": "completed" })).await, json!([]));
    let (_, message) = world.failure("task_get", json!({ "id": "none" })).await;
    assert_eq!(message, "no task `none`; see task_list");
}

#[tokio::test]
async fn concurrent_changes_are_all_stored() {
    let world = World::new();
    let task = world.json("task_create", json!({ "subject": "s", "description": "d" })).await;
    let add = |label: &str| world.json("task_update", json!({ "id": task["id"], "add_blocks": [label] }));
    tokio::join!(add("a"), add("b"), add("c"));
    let blocks =
        world.json("task_get", json!({ "id": task["id"] })).await["blocks"].as_array().unwrap().len();
    assert_eq!(blocks, 3);
}
