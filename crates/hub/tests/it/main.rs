//! The hub's integration tests: real sockets, one binary, one module per subject.

#[cfg(test)]
mod channels;
#[cfg(test)]
mod durable;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod many;
#[cfg(test)]
mod support;

/// A module that is not listed above would silently not be tested.
#[test]
fn every_file_is_a_module() {
    let listed = include_str!("main.rs");
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let module = name.trim_end_matches(".rs");
        assert!(module == "main" || listed.contains(&format!("\nmod {module};")), "{name}");
    }
}
