//! Test files that nobody runs: a file of integration tests that its `main.rs` does not name would be passed over in
//! silence.

use std::fs;
use std::path::Path;

use crate::process::root;

#[test]
fn every_file_of_integration_tests_is_a_module_of_its_binary() {
    let crates = root().join("crates");
    let binaries: Vec<_> = fs::read_dir(&crates)
        .unwrap()
        .map(|entry| entry.unwrap().path().join("tests/it"))
        .filter(|folder| folder.is_dir())
        .collect();
    assert!(binaries.len() > 5, "the crates are not in {}", crates.display());
    let forgotten: Vec<_> = binaries.iter().flat_map(|folder| unnamed(folder)).collect();
    assert_eq!(forgotten, [""; 0]);
}

/// The files of a directory that its `main.rs` does not name.
fn unnamed(folder: &Path) -> Vec<String> {
    let main = fs::read_to_string(folder.join("main.rs")).unwrap();
    let is_named = |name: &str| main.contains(&format!("\nmod {name};"));
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files
        .filter(|file| file.extension().is_some_and(|extension| extension == "rs"))
        .filter(|file| {
            let name = file.file_stem().unwrap().to_str().unwrap();
            name != "main" && !is_named(name)
        })
        .map(|file| file.display().to_string())
        .collect()
}
