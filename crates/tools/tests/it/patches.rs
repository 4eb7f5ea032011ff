//! `apply_patch`: what it understands, and that it is all or nothing.

use serde_json::{Value, json};

use crate::support::World;

fn patch(body: &str) -> Value {
    json!({ "patch": format!("*** Begin Patch\n{body}\n*** End Patch\n") })
}

/// Everything in the workspace.
fn contents(world: &World) -> Vec<(String, String)> {
    let root = world.path("work");
    let mut found = Vec::new();
    let mut open = vec![root.clone()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
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
async fn files_are_added_changed_moved_and_deleted_together() {
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
async fn a_patch_of_which_one_part_fails_changes_nothing() {
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
async fn a_last_step_that_fails_takes_the_others_back() {
    let world = World::new();
    world.write("a", "one\n");
    world.write("directory/b", "two\n");
    let before = contents(&world);
    // The second file can be written beside its place, but its name is too long to be put into it.
    let name = "n".repeat(300);
    let body =
        format!("*** Update File: a\n@@\n-one\n+1\n*** Delete File: directory/b\n*** Add File: {name}\n+x");
    let output = world.output("apply_patch", patch(&body)).await;
    assert!(output.is_error, "{output:?}");
    assert_eq!(contents(&world), before);
}

#[tokio::test]
async fn small_differences_do_not_matter() {
    let world = World::new();
    world.write("quotes", "say \u{201c}hi\u{201d}  \nnext\n");
    world.write("returns", "one\r\ntwo\r\n");
    world.json("apply_patch", patch("*** Update File: quotes\n@@\n-say \"hi\"\n+say bye\n next")).await;
    world.json("apply_patch", patch("*** Update File: returns\n@@\n one\n-two\n+2")).await;
    assert_eq!(world.read("quotes").as_deref(), Some("say bye\nnext\n"));
    assert_eq!(world.read("returns").as_deref(), Some("one\r\n2\r\n"));
}

#[tokio::test]
async fn the_end_of_a_file_can_be_named() {
    let world = World::new();
    world.write("file", "x\ny\nx\n");
    world.json("apply_patch", patch("*** Update File: file\n@@\n-x\n+z\n*** End of File")).await;
    assert_eq!(world.read("file").as_deref(), Some("x\ny\nz"));
}

#[tokio::test]
async fn permissions_stay() {
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
async fn what_is_wrong_with_a_patch_is_said() {
    let world = World::new();
    world.write("file", "one\n");
    let cases = [
        (
            "*** Update File: file\n@@ none\n-one",
            "`file`: hunk 1: there is no line `none` where it is looked for; read the file again",
        ),
        (
            "*** Update File: file\n@@\n-two",
            "`file`: hunk 1: its lines are not in the file as the patch has them; read the file again",
        ),
        (
            "*** Add File: new\nx",
            "line 3 of the patch is not understood: each line of a new file begins with `+`",
        ),
        ("*** Add File: file\n+x", "`file` is there already; use `*** Update File`"),
    ];
    for (body, expected) in cases {
        let (_, said) = world.failure("apply_patch", patch(body)).await;
        assert_eq!(said, expected);
    }
    let (_, said) = world.failure("apply_patch", json!({ "patch": "x" })).await;
    assert_eq!(said, "the patch must begin with `*** Begin Patch` and end with `*** End Patch`");
}
