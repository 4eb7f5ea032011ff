//! `check`: the layers. Crates use each other only as ARCHITECTURE.md shows, and the modules of a crate form no cycle.
//!
//! A module is a direct child of the crate root. An import through a reexport at the root counts as an import from the
//! module that defines the item.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::error::Error;
use crate::process::root;
use crate::source::{files, is_word, production_code};
use crate::stats;

/// For each module, the modules it uses.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Fails if a dependency between crates is missing from ARCHITECTURE.md or listed but unused, if modules are in a cycle,
/// or if the state of a type is spread over many files.
pub(crate) fn check() -> Result<(), Error> {
    let mut findings = Vec::new();
    let architecture = read(&root().join("ARCHITECTURE.md"))?;
    compare(&mut findings, "ARCHITECTURE.md", &arrows_shown(&architecture), &arrows()?);
    findings.extend(missing_steps(&architecture));
    for (name, modules) in cycles()? {
        let modules: Vec<_> = modules.iter().map(|module| format!("`{module}`")).collect();
        findings.push(format!("modules of `{name}` are in a cycle: {}", modules.join(", ")));
    }
    findings.extend(stats::spread()?.into_iter().map(|spread| format!("split the state of {spread}")));
    if findings.is_empty() { Ok(()) } else { Err(Error::Layers(findings)) }
}

/// Returns what is wrong with the steps of a run, such as `rkat/src/main.rs::main`: each names a function that exists.
fn missing_steps(page: &str) -> Vec<String> {
    const MAX_STEPS: usize = 15;
    let steps: Vec<_> =
        page.split('`').skip(1).step_by(2).filter_map(|code| code.split_once(".rs::")).collect();
    let is_missing = |(file, name): &&(&str, &str)| {
        let path = root().join("crates").join(format!("{file}.rs"));
        !read(&path)
            .is_ok_and(|code| code.contains(&format!("fn {name}(")) || code.contains(&format!("fn {name}<")))
    };
    let missing = steps.iter().filter(is_missing);
    let mut findings: Vec<_> =
        missing.map(|(file, name)| format!("ARCHITECTURE.md: no function `{name}` in `{file}.rs`")).collect();
    if !(1..=MAX_STEPS).contains(&steps.len()) {
        findings.push(format!("ARCHITECTURE.md: {} steps of a run instead of 1 to {MAX_STEPS}", steps.len()));
    }
    findings
}

/// Returns the modules of each crate that are in a cycle; crates without one are omitted.
pub(crate) fn cycles() -> Result<Graph, Error> {
    let mut cycles = Graph::new();
    for name in crates()? {
        let modules = in_cycles(&modules(&root().join("crates").join(&name).join("src"))?);
        if !modules.is_empty() {
            cycles.insert(name, modules);
        }
    }
    Ok(cycles)
}

/// Returns the names of the crates' directories.
pub(crate) fn crates() -> Result<Vec<String>, Error> {
    let dir = root().join("crates");
    let mut names = Vec::new();
    for entry in fs::read_dir(&dir).map_err(Error::file(&dir))? {
        names.push(entry.map_err(Error::file(&dir))?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

fn compare(findings: &mut Vec<String>, list: &str, listed: &Graph, actual: &Graph) {
    let none = BTreeSet::new();
    let names: BTreeSet<_> = listed.keys().chain(actual.keys()).collect();
    for name in names {
        let (listed, actual) = (listed.get(name).unwrap_or(&none), actual.get(name).unwrap_or(&none));
        let extra = actual.difference(listed).map(|item| format!("`{name}` -> `{item}` is not in {list}"));
        let stale = listed.difference(actual).map(|item| format!("remove `{item}` of `{name}` from {list}"));
        findings.extend(extra.chain(stale));
    }
}

/// Reads lines such as `hub -> process store`.
fn arrows_shown(page: &str) -> Graph {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<BTreeSet<_>>();
    let is_name = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    let lines = page.lines().filter_map(|line| line.split_once(" -> "));
    lines.filter(|(name, _)| is_name(name)).map(|(name, uses)| (name.to_owned(), words(uses))).collect()
}

/// Returns the dependencies of each crate on others of the workspace, without those of its tests.
fn arrows() -> Result<Graph, Error> {
    let mut arrows = Graph::new();
    for name in crates()? {
        let manifest = read(&root().join("crates").join(&name).join("Cargo.toml"))?;
        let section = manifest.split_once("[dependencies]").map_or("", |(_, rest)| rest);
        let lines = section.lines().skip(1).take_while(|line| !line.starts_with('['));
        let keys = lines.filter_map(|line| line.split(['.', ' ', '=']).next());
        let uses = keys.filter(|key| *key == "meerkat" || key.starts_with("meerkat-"));
        let uses: BTreeSet<_> = uses.map(|key| key.trim_start_matches("meerkat-").to_owned()).collect();
        if !uses.is_empty() {
            arrows.insert(name, uses);
        }
    }
    Ok(arrows)
}

/// Returns which modules of a crate use which.
fn modules(src: &Path) -> Result<Graph, Error> {
    let crate_root = ["lib.rs", "main.rs"].map(|name| src.join(name)).into_iter().find(|path| path.exists());
    let root_code =
        crate_root.as_deref().map(read).transpose()?.map(|text| production_code(&text)).unwrap_or_default();
    let mut graph: Graph = declared(&root_code).into_iter().map(|name| (name, BTreeSet::new())).collect();
    let reexports = reexports(&root_code, &graph);
    for path in files(src, &["rs"])? {
        let Some((module, depth)) = position(src, &path) else { continue };
        let code = production_code(&read(&path)?);
        let names = references(&code, depth).into_iter();
        let used: Vec<_> = names.filter_map(|name| target(&name, &graph, &reexports)).collect();
        if let Some(uses) = graph.get_mut(&module) {
            uses.extend(used.into_iter().filter(|used| *used != module));
        }
    }
    Ok(graph)
}

/// Returns the module of a name at the crate root: itself, or the module it is reexported from.
fn target(name: &str, graph: &Graph, reexports: &BTreeMap<String, String>) -> Option<String> {
    if graph.contains_key(name) { Some(name.to_owned()) } else { reexports.get(name).cloned() }
}

/// Returns the module of a file and the number of `super` from there to the crate root; `None` for the root and for
/// tests.
fn position(src: &Path, file: &Path) -> Option<(String, usize)> {
    let relative = file.strip_prefix(src).ok()?.with_extension("");
    let mut parts: Vec<_> = relative.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if parts.last().is_some_and(|last| last == "mod") {
        parts.pop();
    }
    let is_root = parts.len() == 1 && ["lib", "main"].contains(&parts[0].as_str());
    let is_test = parts.iter().any(|part| part == "tests");
    (!is_root && !is_test && !parts.is_empty()).then(|| (parts[0].clone(), parts.len()))
}

/// Returns the modules that a root declares in files.
fn declared(code: &str) -> Vec<String> {
    let words: Vec<_> =
        code.split(|c: char| !is_word(c) && c != ';').filter(|word| !word.is_empty()).collect();
    let declaration =
        |pair: &[&str]| (pair[0] == "mod").then(|| pair[1].strip_suffix(';')).flatten().map(str::to_owned);
    words.windows(2).filter_map(declaration).collect()
}

/// Maps names that the root imports from its modules to the modules.
fn reexports(code: &str, modules: &Graph) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for (at, _) in code.match_indices("use ") {
        if code[..at].chars().next_back().is_some_and(is_word) {
            continue;
        }
        for path in paths(&code[at + 4..]) {
            if let [module, .., name] = path.as_slice()
                && modules.contains_key(module)
            {
                names.insert(name.clone(), module.clone());
            }
        }
    }
    names
}

/// Returns the names at the crate root that code refers to, from a module at this depth.
fn references(code: &str, depth: usize) -> BTreeSet<String> {
    let to_root = [String::from("crate::"), "super::".repeat(depth)];
    let mut names = BTreeSet::new();
    for start in &to_root {
        for (at, _) in code.match_indices(start.as_str()) {
            let is_partial =
                code[..at].ends_with("super::") || code[..at].chars().next_back().is_some_and(is_word);
            let rest = &code[at + start.len()..];
            if !is_partial && !rest.starts_with("super::") {
                names.extend(paths(rest).into_iter().filter_map(|path| path.into_iter().next()));
            }
        }
    }
    names
}

/// Parses a path, or a tree of paths in braces. The last part of each is the name it is imported by.
fn paths(code: &str) -> Vec<Vec<String>> {
    parse_tree(&mut code.trim_start())
}

fn parse_tree(code: &mut &str) -> Vec<Vec<String>> {
    *code = code.trim_start();
    if let Some(rest) = code.strip_prefix('{') {
        *code = rest;
        let mut all = Vec::new();
        while !code.trim_start().is_empty() && !code.trim_start().starts_with('}') {
            all.extend(parse_tree(code));
            *code = code.trim_start().trim_start_matches(',').trim_start();
            if code.starts_with(|c: char| !is_word(c) && c != '{' && c != '}') {
                break;
            }
        }
        *code = code.trim_start().strip_prefix('}').unwrap_or(code);
        return all;
    }
    let word = word(code);
    if word.is_empty() {
        return vec![Vec::new()];
    }
    if let Some(rest) = code.strip_prefix("::") {
        *code = rest;
        let tails = parse_tree(code);
        return tails.into_iter().map(|tail| std::iter::once(word.clone()).chain(tail).collect()).collect();
    }
    if let Some(rest) = code.trim_start().strip_prefix("as ") {
        *code = rest;
        let alias = self::word(code);
        return vec![vec![word, alias]];
    }
    vec![vec![word]]
}

/// Splits off an identifier.
fn word(code: &mut &str) -> String {
    let rest = code.trim_start_matches(is_word);
    let word = code[..code.len() - rest.len()].to_owned();
    *code = rest;
    word
}

/// Returns the modules that can reach themselves.
fn in_cycles(graph: &Graph) -> BTreeSet<String> {
    graph.keys().filter(|module| reachable(graph, module).contains(*module)).cloned().collect()
}

fn reachable(graph: &Graph, start: &str) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    let mut pending: Vec<&str> = vec![start];
    while let Some(module) = pending.pop() {
        for next in graph.get(module).into_iter().flatten() {
            if seen.insert(next.clone()) {
                pending.push(next);
            }
        }
    }
    seen
}

fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(Error::file(path))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::{Graph, in_cycles, position, reexports, references};

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn references_lead_to_the_crate_root() {
        let code = "use crate::{a::{self, B}, C as D, e};\nuse super::super::{f::G, h};\nuse super::i::J;\ncrate::k::l();";
        assert_eq!(references(code, 2), set(&["a", "C", "e", "f", "h", "k"]));
        assert_eq!(references(code, 1), set(&["a", "C", "e", "i", "k"]));
    }

    #[test]
    fn reexports_name_their_module() {
        let modules = Graph::from([("a".to_owned(), set(&[])), ("b".to_owned(), set(&[]))]);
        let names = reexports("pub use a::{B, c::D as E};\nuse std::fs;\npub(crate) use b::F;\n", &modules);
        let names: Vec<_> = names.iter().map(|(name, module)| format!("{name} of {module}")).collect();
        assert_eq!(names, ["B of a", "E of a", "F of b"]);
    }

    #[test]
    fn cycles_are_found() {
        let uses = |name: &str, used: &[&str]| (name.to_owned(), set(used));
        let graph = Graph::from([uses("a", &["b"]), uses("b", &["c"]), uses("c", &["b"]), uses("d", &["a"])]);
        assert_eq!(in_cycles(&graph), set(&["b", "c"]));
    }

    #[test]
    fn files_have_a_module_and_a_depth() {
        let position = |file: &str| position(Path::new("src"), Path::new(file));
        assert_eq!(position("src/a.rs"), Some(("a".to_owned(), 1)));
        assert_eq!(position("src/a/mod.rs"), Some(("a".to_owned(), 1)));
        assert_eq!(position("src/a/b.rs"), Some(("a".to_owned(), 2)));
        assert_eq!([position("src/lib.rs"), position("src/a/tests.rs")], [None, None]);
    }
}
