//! Test files that do not run: a file of integration tests without a `mod` line in its `main.rs` would be skipped
//! silently.

use std::fs;
use std::path::Path;

use crate::process::root;

#[test]
fn every_integration_test_file_is_a_module() {
    let crates = root().join("crates");
    let binaries: Vec<_> = fs::read_dir(&crates)
        .unwrap()
        .map(|entry| entry.unwrap().path().join("tests/it"))
        .filter(|dir| dir.is_dir())
        .collect();
    assert!(binaries.len() > 5, "no crates found in {}", crates.display());
    let unlisted: Vec<_> = binaries.iter().flat_map(|dir| unlisted_files(dir)).collect();
    assert_eq!(unlisted, [""; 0]);
}

/// Returns the files of a directory without a `mod` line in its `main.rs`.
fn unlisted_files(dir: &Path) -> Vec<String> {
    let main = fs::read_to_string(dir.join("main.rs")).unwrap();
    let is_named = |name: &str| main.contains(&format!("\nmod {name};"));
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    files
        .filter(|file| file.extension().is_some_and(|extension| extension == "rs"))
        .filter(|file| {
            let name = file.file_stem().unwrap().to_str().unwrap();
            name != "main" && !is_named(name)
        })
        .map(|file| file.display().to_string())
        .collect()
}
