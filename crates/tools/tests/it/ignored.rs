//! Ignore files: the files they hide, and that their own paths cannot leave the workspace.

use serde_json::json;

use crate::support::World;

async fn list_files(world: &World) -> Vec<String> {
    let text = world.text("list_files", json!({})).await;
    text.lines().filter(|line| !line.ends_with('/') && !line.contains("ignore")).map(str::to_owned).collect()
}

#[tokio::test]
async fn nearest_rule_decides() {
    let world = World::new();
    for file in ["a.log", "keep.log", "sub/a.log", "sub/b.log", "sub/x.tmp", "out/x", "sub/out/x", "c.txt"] {
        world.write(file, "x");
    }
    world.write(".gitignore", "*.log\n!keep.log\n/out\n*.tmp\nc.txt\n");
    world.write("sub/.gitignore", "!a.log\n");
    world.write("sub/.ignore", "!x.tmp\n");
    world.write(".ignore", "!c.txt\n");
    assert_eq!(list_files(&world).await, ["c.txt", "keep.log", "sub/a.log", "sub/out/x", "sub/x.tmp"]);
    let logs = world.text("list_files", json!({ "glob": "*.log" })).await;
    assert_eq!(logs, "a.log\nkeep.log\nsub/a.log\nsub/b.log", "a glob takes precedence over the rules");
    let rest = world.text("list_files", json!({ "glob": "!**/x*" })).await;
    assert_eq!(rest, ".gitignore\n.ignore\nc.txt\nkeep.log\nsub/.gitignore\nsub/.ignore\nsub/a.log");
}

#[tokio::test]
async fn rules_end_at_a_nested_repository() {
    let world = World::new();
    for file in ["one", "two", "nested/one", "nested/two", "nested/three", "nested/.git/HEAD", ".git/HEAD"] {
        world.write(file, "x");
    }
    world.write(".gitignore", "one\n");
    world.write(".git/info/exclude", "two\n");
    world.write("nested/.git/info/exclude", "three\n");
    assert_eq!(list_files(&world).await, ["nested/one", "nested/two"]);
}

#[tokio::test]
async fn ignore_files_outside_are_not_read() {
    let world = World::new();
    for file in ["one", "two", "three"] {
        world.write(file, "x");
    }
    std::fs::write(world.path("rules"), "one\n").unwrap();
    std::fs::create_dir_all(world.path("repository/info")).unwrap();
    std::fs::write(world.path("repository/commondir"), ".\n").unwrap();
    std::fs::write(world.path("repository/info/exclude"), "two\n").unwrap();
    world.link(".gitignore", world.path("rules"));
    world.link(".ignore", "../rules");
    world.write(".git", &format!("gitdir: {}\n", world.path("repository").display()));
    assert_eq!(list_files(&world).await, ["one", "three", "two"]);
    std::fs::remove_file(world.path("work/.git")).unwrap();
    world.link(".git", world.path("repository"));
    assert_eq!(list_files(&world).await, ["one", "three", "two"]);
}

#[tokio::test]
async fn symlinks_are_listed_and_not_followed() {
    let world = World::new();
    world.write("sub/file", "x");
    world.link("dir", "sub");
    world.link("out", world.path(""));
    assert_eq!(world.text("list_files", json!({})).await, "dir\nout\nsub/\nsub/file");
    assert_eq!(world.text("list_files", json!({ "path": "dir" })).await, "sub/file");
}
