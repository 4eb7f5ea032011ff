//! The registry over a bus in memory: every rule, text and shape that programs rely on.

#[cfg(test)]
mod api;
#[cfg(test)]
mod notices;
#[cfg(test)]
mod prompts;
#[cfg(test)]
mod skills;
#[cfg(test)]
mod support;

/// A module that is not listed above would silently not be tested.
#[test]
fn every_file_is_a_module() {
    let listed = include_str!("main.rs");
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(module) = name.strip_suffix(".rs") else { continue };
        assert!(module == "main" || listed.contains(&format!("\nmod {module};")), "{name} is not listed");
    }
}
