//! Presets of `--tools`.

use crate::support::Rkat;

const DELETE: &str = r#"call apply_patch {"patch": "*** Begin Patch\n*** Delete File: file\n*** End Patch"}"#;

#[test]
fn safe_tools_change_no_files() {
    let rkat = Rkat::new();
    let file = rkat.work().join("file");
    std::fs::write(&file, "text").unwrap();
    for preset in ["--tools=safe", "--tools=none"] {
        let done = rkat.args(["run", "-q", preset, DELETE]).run().to_string();
        assert!(done.contains("no tool is named `apply_patch`"), "{preset}: {done}");
        let resumed = rkat.args(["run", "-q", "--resume", DELETE]).run().to_string();
        assert!(resumed.contains("no tool is named `apply_patch`"), "{preset}: {resumed}");
    }
    assert!(file.exists());
    let read = rkat.args(["run", "-q", "--tools=safe", r#"call read_file {"path": "file"}"#]).run();
    assert_eq!(read.stdout, "read_file → text\n");
    let done = rkat.args(["run", "-q", "--resume", "--tools=workspace", DELETE]).run().to_string();
    assert!(done.contains(r#""deleted_files":["file"]"#) && !file.exists(), "{done}");
}
