//! `apply_patch`: its grammar, and that it changes all files or none.

use serde_json::{Value, json};

use crate::support::World;

fn patch(body: &str) -> Value {
    json!({ "patch": format!("*** Begin Patch\n{body}\n*** End Patch\n") })
}

/// Returns the content of every file in the workspace.
fn contents(world: &World) -> Vec<(String, String)> {
    let root = world.path("work");
    let mut found = Vec::new();
    let mut open = vec![root.clone()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(dir).unwrap().flatten() {
            let path = entry.path();
            let name = path.strip_prefix(&root).unwrap().display().to_string();
            if path.is_dir() {
                found.push((format!("{name}/"), String::new()));
                open.push(path);
            } else {
                found.push((name, std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

#[tokio::test]
async fn patch_adds_changes_moves_and_deletes_files() {
    let world = World::new();
    world.write("change", "one\ntwo\nthree\n");
    world.write("move", "a\nb\n");
    world.write("delete", "x");
    let reply = world
        .json(
            "apply_patch",
            patch(
                "*** Add File: new/file\n+hello\n+\n*** Update File: change\n@@ one\n-two\n+2\n three\n*** Update File: move\n\
                 *** Move to: moved/here\n@@\n a\n-b\n+c\n*** Delete File: delete",
            ),
        )
        .await;
    assert_eq!(
        reply,
        json!({
            "status": "success", "added_files": ["new/file"], "modified_files": ["change", "moved/here"],
            "deleted_files": ["delete"],
        })
    );
    let expected = [
        ("change", "one\n2\nthree\n"),
        ("moved/", ""),
        ("moved/here", "a\nc\n"),
        ("new/", ""),
        ("new/file", "hello\n\n"),
    ];
    assert_eq!(contents(&world), expected.map(|(name, text)| (name.to_owned(), text.to_owned())));
}

#[tokio::test]
async fn failing_part_leaves_all_files_unchanged() {
    for bad in [
        "*** Update File: b\n@@\n-missing\n+x",
        "*** Update File: none\n@@\n-a\n+x",
        "*** Add File: b\n+x",
        "*** Delete File: none",
        "*** Update File: ../outside\n@@\n-outside\n+x",
        "*** Add File: a/below\n+x",
        "*** Delete File: directory",
        "*** Update File: a\n@@\n-one\n+twice",
        "nonsense",
    ] {
        let world = World::new();
        world.write("a", "one\n");
        world.write("b", "two\n");
        world.write("directory/c", "three\n");
        let before = contents(&world);
        let body = format!("*** Add File: new/deep/file\n+x\n*** Update File: a\n@@\n-one\n+1\n{bad}");
        let output = world.output("apply_patch", patch(&body)).await;
        assert!(output.is_error, "{bad}: {output:?}");
        assert_eq!(contents(&world), before, "{bad}");
    }
}

#[tokio::test]
async fn failing_last_step_rolls_back_the_others() {
    let world = World::new();
    world.write("a", "one\n");
    world.write("directory/b", "two\n");
    let before = contents(&world);
    // The temporary file of the second one can be written, but its final name is too long.
    let name = "n".repeat(300);
    let body =
        format!("*** Update File: a\n@@\n-one\n+1\n*** Delete File: directory/b\n*** Add File: {name}\n+x");
    let output = world.output("apply_patch", patch(&body)).await;
    assert!(output.is_error, "{output:?}");
    assert_eq!(contents(&world), before);
}

#[tokio::test]
async fn small_differences_are_tolerated() {
    let world = World::new();
    world.write("quotes", "say \u{201c}hi\u{201d}  \nnext\n");
    world.write("returns", "one\r\ntwo\r\n");
    world.json("apply_patch", patch("*** Update File: quotes\n@@\n-say \"hi\"\n+say bye\n next")).await;
    world.json("apply_patch", patch("*** Update File: returns\n@@\n one\n-two\n+2")).await;
    assert_eq!(world.read("quotes").as_deref(), Some("say bye\nnext\n"));
    assert_eq!(world.read("returns").as_deref(), Some("one\r\n2\r\n"));
}

#[tokio::test]
async fn end_of_file_marker_is_supported() {
    let world = World::new();
    world.write("file", "x\ny\nx\n");
    world.json("apply_patch", patch("*** Update File: file\n@@\n-x\n+z\n*** End of File")).await;
    assert_eq!(world.read("file").as_deref(), Some("x\ny\nz"));
}

#[tokio::test]
async fn permissions_are_preserved() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::new();
    world.write("run.sh", "one\n");
    let path = world.path("work/run.sh");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o750)).unwrap();
    world.json("apply_patch", patch("*** Update File: run.sh\n*** Move to: go.sh\n@@\n-one\n+two")).await;
    let mode = world.path("work/go.sh").metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode, 0o750);
}

#[tokio::test]
async fn patch_errors_are_reported() {
    let world = World::new();
    world.write("file", "one\n");
    let cases = [
        (
            "*** Update File: file\n@@ none\n-one",
            "`file`: hunk 1: no line `none` at or after the expected position; read the file again",
        ),
        (
            "*** Update File: file\n@@\n-two",
            "`file`: hunk 1: its lines do not match the file; read the file again",
        ),
        ("*** Add File: new\nx", "invalid line 3 in the patch: each line of a new file must start with `+`"),
        ("*** Add File: file\n+x", "`file` already exists; use `*** Update File`"),
    ];
    for (body, expected) in cases {
        let (_, message) = world.failure("apply_patch", patch(body)).await;
        assert_eq!(message, expected);
    }
    let (_, message) = world.failure("apply_patch", json!({ "patch": "x" })).await;
    assert_eq!(message, "the patch must start with `*** Begin Patch` and end with `*** End Patch`");
}
