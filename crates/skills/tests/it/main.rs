//! What skills promise to whoever writes them and to whoever asks for them.

#[cfg(test)]
mod catalogue;
#[cfg(test)]
mod documents;
#[cfg(test)]
mod install;
#[cfg(test)]
mod reads;
#[cfg(test)]
mod remote;
#[cfg(test)]
mod skill_tool;
#[cfg(test)]
mod tools;
#[cfg(test)]
mod tree;
#[cfg(test)]
mod views;
#[cfg(test)]
mod watching;

#[test]
fn every_file_here_is_a_module() {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let main = include_str!("main.rs");
    for file in std::fs::read_dir(here).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(name == "main" || main.contains(&format!("mod {name};")), "{name}");
    }
}
