//! Pipes, sparse files, and gigantic lines in the workspace.

use std::fs::File;
use std::io::Write as _;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use crate::support::World;

fn pipe(world: &World, path: &str) {
    let path = world.path("work").join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

/// Creates a file with some text, followed by zeros up to a size.
fn sparse(world: &World, path: &str, text: &[u8], size: u64) {
    let mut file = File::create(world.path("work").join(path)).unwrap();
    file.write_all(text).unwrap();
    file.set_len(size).unwrap();
}

/// Calls a tool that must not block.
async fn call_with_timeout(world: &World, tool: &str, arguments: Value) -> String {
    let text = tokio::time::timeout(Duration::from_secs(60), world.text(tool, arguments));
    text.await.unwrap_or_else(|_| panic!("{tool} blocks"))
}

#[tokio::test]
async fn pipes_do_not_block_a_walk() {
    let world = World::new();
    world.write("file", "needle\n");
    for path in [".gitignore", ".ignore", ".git/info/exclude", "pipe", "sub/.gitignore"] {
        pipe(&world, path);
    }
    let found = call_with_timeout(&world, "search_files", json!({ "pattern": "needle" })).await;
    assert_eq!(found, "file:1:needle\n");
    let listed = call_with_timeout(&world, "list_files", json!({})).await;
    assert_eq!(listed, ".gitignore\n.ignore\nfile\npipe\nsub/\nsub/.gitignore");
}

#[tokio::test]
async fn no_tool_opens_a_pipe() {
    let world = World::new();
    world.write("file", "x\n");
    pipe(&world, "pipe");
    let blob = world.json("blob_load_file", json!({ "path": "file" })).await["blob_id"].clone();
    let patch = "*** Begin Patch\n*** Delete File: pipe\n*** End Patch";
    for (tool, arguments) in [
        ("read_file", json!({ "path": "pipe" })),
        ("search_files", json!({ "path": "pipe", "pattern": "x" })),
        ("view_image", json!({ "path": "pipe" })),
        ("blob_load_file", json!({ "path": "pipe" })),
        ("blob_save_file", json!({ "path": "pipe", "blob_id": blob, "overwrite": true })),
        ("apply_patch", json!({ "patch": patch })),
    ] {
        let (_, message) = world.failure(tool, arguments).await;
        assert_eq!(message, "`pipe` is not a file", "{tool}");
    }
}

#[tokio::test]
async fn gigantic_line_is_not_searched() {
    let world = World::new();
    world.write("a", "needle\n");
    world.write("b", &format!("needle\n{}needle\nneedle\n", "x".repeat(4 * 1024 * 1024)));
    world.write("c", "needle\n");
    let note =
        "[1 file was only searched in part: a line is longer than 1 MB, or the file is larger than 256 MB]";
    let found = call_with_timeout(&world, "search_files", json!({ "pattern": "needle" })).await;
    assert_eq!(found, format!("a:1:needle\nb:1:needle\nc:1:needle\n{note}"));
    let found = call_with_timeout(&world, "search_files", json!({ "pattern": "nowhere" })).await;
    assert_eq!(found, format!("[no match]\n{note}"));
}

#[tokio::test]
async fn sparse_terabyte_file_is_read_in_part() {
    let world = World::new();
    sparse(&world, "sparse", "line\n".repeat(4000).as_bytes(), 1 << 40);
    let first = call_with_timeout(&world, "read_file", json!({ "path": "sparse", "limit": 1 })).await;
    assert_eq!(first, "line\n[lines 1 to 1; more follow from offset 2]");
    let (_, message) = world.failure("read_file", json!({ "path": "sparse", "offset": 5000 })).await;
    assert_eq!(message, "`sparse` is too long: a line that starts after the first 256 MB is not read");
    let found = call_with_timeout(&world, "search_files", json!({ "pattern": "nowhere" })).await;
    assert_eq!(found, "[no match]");
    for tool in ["view_image", "blob_load_file"] {
        let (_, message) = world.failure(tool, json!({ "path": "sparse" })).await;
        assert!(message.contains("is larger than"), "{tool}: {message}");
    }
}
