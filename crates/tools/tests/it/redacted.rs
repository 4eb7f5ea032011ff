//! Secrets in output that a tool truncates or stores as a blob.

use serde_json::{Value, json};

use crate::support::{KNOWN_SECRET, World, unsandboxed};

/// Number of secret bytes left after a cut.
const LEFT: usize = 7;

/// Returns the content of the blob that a truncated output names.
async fn blob(world: &World, output: &Value) -> String {
    let text = output.as_str().unwrap();
    let id = text.split_once("blob ").unwrap().1.split_whitespace().next().unwrap();
    world.json("blob_save_file", json!({ "blob_id": id, "path": "blob", "overwrite": true })).await;
    world.read("blob").unwrap()
}

/// Returns a command that writes the secret and then this many other bytes.
fn command(after: usize) -> String {
    format!("printf 'start {KNOWN_SECRET}'; head -c {after} /dev/zero | tr '\\0' x")
}

#[tokio::test]
async fn secret_cut_by_truncation_is_masked() {
    let world = World::with_shell(unsandboxed());
    let reply = world.shell(&command(100_000 - LEFT)).await;
    let output = reply["stdout"].as_str().unwrap();
    assert!(!output.contains("fish") && !output.contains("4711"), "{}", &output[..200]);
    let stored = blob(&world, &reply["stdout"]).await;
    assert!(stored.starts_with("start ***xxx"), "{}", &stored[..40]);
}

#[tokio::test]
async fn secret_cut_by_the_capture_limit_is_masked() {
    let world = World::with_shell(unsandboxed());
    let reply = world.shell(&command(8 * 1024 * 1024 - LEFT)).await;
    let stored = blob(&world, &reply["stdout"]).await;
    assert!(stored.starts_with("***xxx"), "{}", &stored[..40]);
}

#[tokio::test]
async fn secret_in_job_output_is_masked() {
    let world = World::with_shell(unsandboxed());
    let started = world.json("shell", json!({ "command": command(100_000), "background": true })).await;
    let mut job = Value::Null;
    let ended = async {
        while job["status"]["status"] != "completed" {
            tokio::task::yield_now().await;
            job = world.json("shell_job_status", json!({ "job_id": started["job_id"] })).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), ended).await.unwrap();
    assert!(blob(&world, &job["status"]["stdout"]).await.starts_with("start ***xxx"));
}

#[tokio::test]
async fn secret_at_a_cut_is_masked() {
    let world = World::new();
    world.write("line", &format!("{}{KNOWN_SECRET}", "x".repeat(64 * 1024 - LEFT)));
    let output = world.text("read_file", json!({ "path": "line" })).await;
    assert!(output.ends_with("xxx***"), "{}", &output[output.len() - 20..]);
    let needle = format!("needle{}{KNOWN_SECRET} end", "x".repeat(394 - LEFT));
    world.write("line", &needle);
    let found = world.text("search_files", json!({ "pattern": "needle" })).await;
    assert!(found.contains("xxx***") && !found.contains("sword"), "{found}");
}
