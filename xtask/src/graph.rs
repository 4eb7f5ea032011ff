//! `check`: the layers. Crates use each other only as ARCHITECTURE.md shows, and the modules of a crate form no cycle.
//!
//! Modules are compared with the other submodules of their parent, at every level. An import through a reexport of the
//! parent counts as an import from the submodule that defines the item.

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
    compare(&mut findings, "xtask/cycles.txt", &known_cycles()?, &cycles()?);
    findings
        .extend(layer_problems(&architecture, levels("meerkat")?.get("meerkat").unwrap_or(&Graph::new())));
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

/// Returns the submodules of each module that are in a cycle; modules without one are omitted.
fn cycles() -> Result<Graph, Error> {
    let mut cycles = Graph::new();
    for name in crates()? {
        let levels = levels(&name)?.into_iter();
        cycles.extend(
            levels.map(|(path, graph)| (path, in_cycles(&graph))).filter(|(_, found)| !found.is_empty()),
        );
    }
    Ok(cycles)
}

/// Reads the cycles that still exist, in lines such as `meerkat::tools -> error registry`. The list only shrinks.
fn known_cycles() -> Result<Graph, Error> {
    Ok(arrows_shown(&read(&root().join("xtask/cycles.txt"))?))
}

/// Compares the layers of the facade in ARCHITECTURE.md with its modules.
fn layer_problems(page: &str, graph: &Graph) -> Vec<String> {
    let block = page.split("```").skip(1).step_by(2).find(|block| block.contains(" < ")).unwrap_or_default();
    let block = block.trim_start_matches("text");
    let layers = block.split('<').enumerate();
    let layer_of: BTreeMap<_, _> =
        layers.flat_map(|(layer, names)| names.split_whitespace().map(move |name| (name, layer))).collect();
    let stale = layer_of.keys().filter(|name| !graph.contains_key(**name));
    let stale = stale.map(|name| format!("ARCHITECTURE.md: `meerkat` has no module `{name}`"));
    let unlisted = graph.keys().filter(|name| !layer_of.contains_key(name.as_str()));
    let unlisted = unlisted.map(|name| format!("ARCHITECTURE.md: add the module `{name}` of `meerkat`"));
    let uses = graph.iter().flat_map(|(name, uses)| uses.iter().map(move |used| (name, used)));
    let points_up = |(name, used): &(&String, &String)| {
        layer_of.get(name.as_str()).zip(layer_of.get(used.as_str())).is_some_and(|(own, used)| own < used)
    };
    let up = uses.filter(points_up);
    let up = up.map(|(name, used)| format!("`{name}` of `meerkat` uses `{used}`, which is above it"));
    stale.chain(unlisted).chain(up).collect()
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
    let is_name =
        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || "-_:".contains(c));
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

/// The modules of a crate that are files, by their paths, with their production code. The path of the root is empty.
type Modules = BTreeMap<Vec<String>, String>;

/// Returns for each module that has submodules, by its path such as `meerkat::sessions`, which of them use which.
fn levels(name: &str) -> Result<BTreeMap<String, Graph>, Error> {
    let src = root().join("crates").join(name).join("src");
    let mut modules = Modules::new();
    for path in files(&src, &["rs"])? {
        if let Some(module) = position(&src, &path) {
            modules.insert(module, production_code(&read(&path)?));
        }
    }
    let references: Vec<_> =
        modules.iter().map(|(module, code)| (module.as_slice(), references(code, module))).collect();
    let level = |(parent, code): (&Vec<String>, &String)| {
        let path = std::iter::once(name).chain(parent.iter().map(String::as_str)).collect::<Vec<_>>();
        (path.join("::"), siblings(parent, code, &references))
    };
    Ok(modules.iter().map(level).collect())
}

/// Returns which submodules of a module use which. A name that the module imports from one of them counts as an import
/// from there.
fn siblings(parent: &[String], code: &str, references: &[(&[String], BTreeSet<Vec<String>>)]) -> Graph {
    let mut graph: Graph = declared(code).into_iter().map(|name| (name, BTreeSet::new())).collect();
    let reexports = reexports(code, &graph);
    for (module, paths) in references {
        let Some(user) = module.strip_prefix(parent).and_then(|rest| rest.first()) else { continue };
        let names = paths.iter().filter_map(|path| path.strip_prefix(parent)?.first());
        let used: Vec<_> = names.filter_map(|name| target(name, &graph, &reexports)).collect();
        if let Some(uses) = graph.get_mut(user) {
            uses.extend(used.into_iter().filter(|used| used != user));
        }
    }
    graph
}

/// Returns the submodule of a name in a module: itself, or the one it is reexported from.
fn target(name: &str, graph: &Graph, reexports: &BTreeMap<String, String>) -> Option<String> {
    if graph.contains_key(name) { Some(name.to_owned()) } else { reexports.get(name).cloned() }
}

/// Returns the path of a file's module; `None` for tests.
fn position(src: &Path, file: &Path) -> Option<Vec<String>> {
    let relative = file.strip_prefix(src).ok()?.with_extension("");
    let mut parts: Vec<_> = relative.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let is_root = parts.len() == 1 && ["lib", "main"].contains(&parts[0].as_str());
    if is_root || parts.last().is_some_and(|last| last == "mod") {
        parts.pop();
    }
    let is_test = parts.iter().any(|part| part == "tests");
    (!is_test).then_some(parts)
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

/// Returns the paths from the crate root that the code of a module refers to with `crate::` or `super::`.
fn references(code: &str, module: &[String]) -> BTreeSet<Vec<String>> {
    let mut found = BTreeSet::new();
    for (start, skipped, base) in [("crate::", "crate::".len(), &[][..]), ("super::", 0, module)] {
        let mut end = 0;
        for (at, _) in code.match_indices(start) {
            let before = &code[..at];
            // The rest of a path is read from its start.
            let is_read =
                at < end || before.ends_with("::") || before.chars().next_back().is_some_and(is_word);
            if !is_read {
                let mut rest = &code[at + skipped..];
                found.extend(parse_tree(&mut rest).iter().filter_map(|path| resolve(base, path)));
                end = code.len() - rest.len();
            }
        }
    }
    found
}

/// Resolves a path that may contain `self` and `super`.
fn resolve(base: &[String], path: &[String]) -> Option<Vec<String>> {
    let mut resolved = base.to_vec();
    for part in path {
        match part.as_str() {
            "self" => {}
            "super" => drop(resolved.pop()?),
            _ => resolved.push(part.clone()),
        }
    }
    Some(resolved)
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

    use super::{Graph, in_cycles, layer_problems, position, reexports, references, siblings};

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn path(path: &str) -> Vec<String> {
        path.split("::").map(str::to_owned).collect()
    }

    #[test]
    fn references_are_paths_from_the_crate_root() {
        let code = "use crate::{a::{self, B}, c};\nuse super::super::{f::G, super::h};\nuse super::i::J;\ncrate::k::l();";
        let found: Vec<_> = references(code, &path("x::y::z")).iter().map(|path| path.join("::")).collect();
        assert_eq!(found, ["a", "a::B", "c", "h", "k::l", "x::f::G", "x::y::i::J"]);
    }

    #[test]
    fn cycles_are_found_at_every_level() {
        let code =
            [("p::a", "crate::{p::Made, q}"), ("p::b::c", "super::super::a::X"), ("q", "crate::p::a::X")];
        let code = code.map(|(module, code)| (path(module), references(code, &path(module))));
        let references: Vec<_> =
            code.iter().map(|(module, paths)| (module.as_slice(), paths.clone())).collect();
        let graph = siblings(&path("p"), "mod a; mod b; pub use b::Made;", &references);
        assert_eq!(in_cycles(&graph), set(&["a", "b"]));
        let graph = siblings(&[], "mod p; mod q;", &references);
        assert_eq!(in_cycles(&graph), set(&["p", "q"]));
    }

    #[test]
    fn layers_are_compared_with_the_modules() {
        let graph = Graph::from([
            ("a".to_owned(), set(&["b"])),
            ("b".to_owned(), set(&[])),
            ("c".to_owned(), set(&["a"])),
        ]);
        assert_eq!(layer_problems("```text\na b < c\n```", &graph), [""; 0]);
        assert_eq!(
            layer_problems("```text\na < b x\n```", &graph),
            [
                "ARCHITECTURE.md: `meerkat` has no module `x`",
                "ARCHITECTURE.md: add the module `c` of `meerkat`",
                "`a` of `meerkat` uses `b`, which is above it",
            ]
        );
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
    fn files_have_a_module() {
        let position = |file: &str| position(Path::new("src"), Path::new(file));
        assert_eq!([position("src/a.rs"), position("src/a/mod.rs")], [Some(path("a")), Some(path("a"))]);
        assert_eq!(position("src/a/b.rs"), Some(path("a::b")));
        assert_eq!([position("src/lib.rs"), position("src/a/tests.rs")], [Some(Vec::new()), None]);
    }
}
