//! File tools, and paths that lead out of the workspace.

use serde_json::{Value, json};

use crate::support::World;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\nrest";

/// Every tool that takes a path, with arguments for this one.
fn with_path(path: &str) -> [(&'static str, Value); 10] {
    let blob = format!("sha256:{}", "0".repeat(64));
    let patch = |part: String| json!({ "patch": format!("*** Begin Patch\n{part}\n*** End Patch") });
    [
        ("read_file", json!({ "path": path })),
        ("list_files", json!({ "path": path })),
        ("search_files", json!({ "pattern": ".", "path": path })),
        ("view_image", json!({ "path": path })),
        ("blob_load_file", json!({ "path": path })),
        ("blob_save_file", json!({ "path": path, "blob_id": blob, "overwrite": true })),
        ("apply_patch", patch(format!("*** Add File: {path}\n+x"))),
        ("apply_patch", patch(format!("*** Delete File: {path}"))),
        ("apply_patch", patch(format!("*** Update File: {path}\n@@\n-outside\n+x"))),
        ("apply_patch", patch(format!("*** Update File: inside\n*** Move to: {path}\n@@\n-in\n+x"))),
    ]
}

#[tokio::test]
async fn tools_reject_paths_out_of_the_workspace() {
    let world = World::new();
    world.write("inside", "in\n");
    world.write("sub/file", "x");
    world.write("image.png", "x");
    let blob = world.json("blob_load_file", json!({ "path": "inside" })).await;
    assert_eq!(blob["bytes_read"], 3);
    world.link("link", world.path("outside"));
    world.link("directory", world.path(""));
    world.link("up", "..");
    let outside = world.path("outside").display().to_string();
    for path in [
        "../outside",
        "sub/../../outside",
        &outside,
        "link",
        "directory/outside",
        "up/outside",
        "/etc/passwd",
    ] {
        for (tool, args) in with_path(path) {
            let (kind, message) = world.failure(tool, args).await;
            assert!(
                kind == "access_denied" || message.contains("is a symlink"),
                "{tool} {path}: {kind} {message}"
            );
        }
    }
    assert_eq!(std::fs::read_to_string(world.path("outside")).unwrap(), "outside");
    assert_eq!(world.read("inside").as_deref(), Some("in\n"));
}

#[tokio::test]
async fn symlink_inside_the_workspace_is_followed() {
    let world = World::new();
    world.write("sub/file", "text\n");
    world.link("link", "sub/file");
    assert_eq!(world.text("read_file", json!({ "path": "link" })).await, "text\n");
    let absolute_path = world.path("work/sub/file").display().to_string();
    assert_eq!(world.text("read_file", json!({ "path": absolute_path })).await, "text\n");
}

#[tokio::test]
async fn line_range_of_a_file_is_read() {
    let world = World::new();
    let lines: Vec<_> = (1..=10).map(|number| format!("line {number}\n")).collect();
    world.write("file", &lines.concat());
    assert_eq!(
        world.text("read_file", json!({ "path": "file", "offset": 3, "limit": 2 })).await,
        "line 3\nline 4\n[lines 3 to 4; more follow from offset 5]"
    );
    assert_eq!(world.text("read_file", json!({ "path": "file", "offset": 9 })).await, "line 9\nline 10\n");
    assert_eq!(
        world.text("read_file", json!({ "path": "file", "offset": 99 })).await,
        "[the file has 10 lines]"
    );
}

#[tokio::test]
async fn huge_file_is_truncated() {
    let world = World::new();
    world.write("lines", &"0123456789abcde\n".repeat(100_000));
    world.write("line", &"x".repeat(1_000_000));
    let page = world.text("read_file", json!({ "path": "lines", "limit": 1_000_000 })).await;
    assert!(page.len() < 70_000 && page.ends_with("[lines 1 to 4096; more follow from offset 4097]"));
    assert!(world.text("read_file", json!({ "path": "line" })).await.len() <= 64 * 1024);
}

#[tokio::test]
async fn binary_files_are_rejected() {
    let world = World::new();
    std::fs::write(world.path("work/binary"), [1, 0, 2]).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        world.path("work/pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let why = |(_, message): (String, String)| message;
    assert_eq!(
        why(world.failure("read_file", json!({ "path": "binary" })).await),
        "`binary` is not text; view_image shows images, and blob_load_file stores any file as a blob"
    );
    assert_eq!(why(world.failure("read_file", json!({ "path": "pipe" })).await), "`pipe` is not a file");
    assert_eq!(
        why(world.failure("read_file", json!({ "path": "." })).await),
        "`.` is the workspace itself; name a file in it"
    );
    assert_eq!(
        why(world.failure("read_file", json!({ "path": "none" })).await),
        "`none`: cannot open it: No such file or directory (os error 2)"
    );
}

#[tokio::test]
async fn ignored_files_are_not_listed() {
    let world = World::new();
    for file in ["src/main.rs", "src/deep/lib.rs", "target/out", ".git/config", "README"] {
        world.write(file, "x");
    }
    world.write(".gitignore", "target\n");
    let list = |args| world.text("list_files", args);
    assert_eq!(list(json!({})).await, ".gitignore\nREADME\nsrc/\nsrc/deep/\nsrc/deep/lib.rs\nsrc/main.rs");
    assert_eq!(list(json!({ "path": "src", "depth": 1 })).await, "src/deep/\nsrc/main.rs");
    assert_eq!(list(json!({ "glob": "**/*.rs" })).await, "src/deep/lib.rs\nsrc/main.rs");
    assert_eq!(
        list(json!({ "limit": 1 })).await,
        ".gitignore\n[more than 1 entries; pass a path, glob, or depth]"
    );
}

#[tokio::test]
async fn files_are_searched_like_ripgrep() {
    let world = World::new();
    world.write("a.rs", "fn one() {}\nfn two() {}\n");
    world.write("b.txt", "Fn three\n");
    world.write("ignored/c.rs", "fn four() {}\n");
    world.write(".gitignore", "ignored\n");
    world.link("link.rs", world.path("outside"));
    let search = |args| world.text("search_files", args);
    assert_eq!(search(json!({ "pattern": r"^fn \w+" })).await, "a.rs:1:fn one() {}\na.rs:2:fn two() {}\n");
    assert_eq!(
        search(json!({ "pattern": "fn t", "ignore_case": true })).await,
        "a.rs:2:fn two() {}\nb.txt:1:Fn three\n"
    );
    assert_eq!(
        search(json!({ "pattern": "two", "context": 1 })).await,
        "a.rs-1-fn one() {}\na.rs:2:fn two() {}\n"
    );
    assert_eq!(search(json!({ "pattern": "outside" })).await, "[no match]");
    assert_eq!(search(json!({ "pattern": "one", "path": "a.rs" })).await, "a.rs:1:fn one() {}\n");
    let (kind, _) = world.failure("search_files", json!({ "pattern": "(" })).await;
    assert_eq!(kind, "invalid_arguments");
}

#[tokio::test]
async fn image_type_is_detected_from_content() {
    let world = World::new();
    std::fs::write(world.path("work/a.txt"), PNG).unwrap();
    world.write("b.png", "no image");
    let output = world.output("view_image", json!({ "path": "a.txt" })).await;
    assert!(format!("{output:?}").contains("image/png"), "{output:?}");
    let (_, message) = world.failure("view_image", json!({ "path": "b.png" })).await;
    assert_eq!(
        message,
        "`b.png` is not a PNG, JPEG, GIF, or WebP image; use read_file for text, including SVG"
    );
}

#[tokio::test]
async fn file_and_blob_convert_both_ways() {
    let world = World::new();
    world.write("in.json", "{}");
    let loaded = world.json("blob_load_file", json!({ "path": "in.json" })).await;
    let id = loaded["blob_id"].clone();
    assert_eq!(
        loaded,
        json!({ "blob_id": id, "media_type": "application/json", "path": "in.json", "bytes_read": 2 })
    );
    let saved = world.json("blob_save_file", json!({ "blob_id": id, "path": "new/out.json" })).await;
    assert_eq!(
        saved,
        json!({ "blob_id": id, "media_type": "application/json", "path": "new/out.json", "bytes_written": 2 })
    );
    let (_, message) =
        world.failure("blob_save_file", json!({ "blob_id": id, "path": "new/out.json" })).await;
    assert_eq!(message, "`new/out.json` already exists");
    world.json("blob_save_file", json!({ "blob_id": id, "path": "new/out.json", "overwrite": true })).await;
    assert_eq!(world.read("new/out.json").as_deref(), Some("{}"));
    let left: Vec<_> = std::fs::read_dir(world.path("work/new")).unwrap().collect();
    assert_eq!(left.len(), 1);
}
