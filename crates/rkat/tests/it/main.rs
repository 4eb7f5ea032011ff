//! What `rkat` promises to the person at the terminal and to scripts: output, exit codes, and the commands in the
//! documentation. Every test drives the built program in a folder of its own.

#[cfg(test)]
mod blobs;
#[cfg(test)]
mod capabilities;
#[cfg(test)]
mod completions;
#[cfg(test)]
mod config;
#[cfg(test)]
mod docs;
#[cfg(test)]
mod doctor;
#[cfg(test)]
mod endings;
#[cfg(test)]
mod failures;
#[cfg(test)]
mod logins;
#[cfg(test)]
mod mcp;
#[cfg(test)]
mod oauth;
#[cfg(test)]
mod pipes;
#[cfg(test)]
mod processes;
#[cfg(test)]
mod prompts;
#[cfg(test)]
mod providers;
#[cfg(test)]
mod realms;
#[cfg(test)]
mod registry;
#[cfg(test)]
mod resume;
#[cfg(test)]
mod runs;
#[cfg(test)]
mod schemas;
#[cfg(test)]
mod serve;
#[cfg(test)]
mod sessions;
#[cfg(test)]
mod skill_serve;
#[cfg(test)]
mod skills;
#[cfg(test)]
mod support;

#[test]
fn every_file_here_is_a_module() {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let main = include_str!("main.rs");
    for file in std::fs::read_dir(here).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let is_source = path.extension().is_some_and(|extension| extension == "rs");
        assert!(!is_source || name == "main" || main.contains(&format!("mod {name};")), "{name}");
    }
}
