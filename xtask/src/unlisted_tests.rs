//! Test files that do not run: a file of integration tests without a `mod` line in the file of its parent module would be
//! skipped silently.

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
    let unlisted: Vec<_> = binaries.iter().flat_map(|dir| unlisted_files(dir, "main")).collect();
    assert_eq!(unlisted, [""; 0]);
}

#[test]
fn unlisted_files_are_found_at_every_level() {
    let dir = std::env::temp_dir().join(format!("meerkat-unlisted-{}", std::process::id()));
    for (name, text) in [
        ("main.rs", "\nmod listed;\nmod group;\n"),
        ("listed.rs", ""),
        ("other.rs", ""),
        ("group/mod.rs", "\nmod listed;\n"),
        ("group/listed.rs", ""),
        ("group/other.rs", ""),
        ("lost/mod.rs", ""),
    ] {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let mut found = unlisted_files(&dir, "main");
    fs::remove_dir_all(&dir).unwrap();
    found.sort();
    let expected = ["group/other.rs", "lost", "other.rs"];
    assert_eq!(found, expected.map(|name| dir.join(name).display().to_string()));
}

/// Returns the files and subdirectories of a directory that are not modules of its root file, and likewise for those of
/// its subdirectories that are.
fn unlisted_files(dir: &Path, root_file: &str) -> Vec<String> {
    let declarations = fs::read_to_string(dir.join(root_file).with_extension("rs")).unwrap();
    let mut unlisted = Vec::new();
    for path in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let is_module = path.is_dir() || path.extension().is_some_and(|extension| extension == "rs");
        if !is_module || name == root_file {
            continue;
        }
        if !declarations.contains(&format!("\nmod {name};")) {
            unlisted.push(path.display().to_string());
        } else if path.is_dir() {
            unlisted.extend(unlisted_files(&path, "mod"));
        }
    }
    unlisted
}
