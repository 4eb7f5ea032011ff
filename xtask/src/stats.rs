//! `check --stats`: metrics of the size and structure of the code.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::graph;
use crate::process::root;
use crate::source::{files, is_word, production_code};

/// An inherent `impl` in more files than this means that a type's state should be split.
const MAX_IMPL_FILES: usize = 3;

/// Prints the lines of production code of each crate.
pub(crate) fn print() -> Result<(), Error> {
    let mut total = 0;
    for name in graph::crates()? {
        let lines = Code::of(&name)?.lines;
        println!("{name:<14} {lines:>8}");
        total += lines;
    }
    println!("{:<14} {total:>8}", "total");
    Ok(())
}

/// Returns the types whose inherent `impl` is in more than three files.
pub(crate) fn spread() -> Result<Vec<String>, Error> {
    let mut found = Vec::new();
    for name in graph::crates()? {
        let code = Code::of(&name)?;
        let types = code.spread().into_iter();
        found.extend(types.map(|(ty, count)| format!("`{name}::{ty}`, whose `impl` is in {count} files")));
    }
    Ok(found)
}

/// The production code of a crate.
#[derive(Default)]
struct Code {
    /// Number of lines that are neither blank, comments, nor tests.
    lines: usize,
    /// The files with an inherent `impl` of each type.
    impls: BTreeMap<String, BTreeSet<PathBuf>>,
    /// The number of types of each name.
    types: BTreeMap<String, usize>,
}

impl Code {
    fn of(name: &str) -> Result<Self, Error> {
        Self::read(&root().join("crates").join(name).join("src"))
    }

    fn read(src: &Path) -> Result<Self, Error> {
        let mut code = Self::default();
        for path in &files(src, &["rs"])? {
            let is_test = path
                .components()
                .any(|part| ["tests", "tests.rs"].iter().any(|name| part.as_os_str() == *name));
            if !is_test {
                code.add(path, &production_code(&fs::read_to_string(path).map_err(Error::file(path))?));
            }
        }
        Ok(code)
    }

    fn add(&mut self, file: &Path, code: &str) {
        self.lines += code.lines().filter(|line| !line.trim().is_empty()).count();
        for ty in code.lines().filter_map(inherent_impl) {
            self.impls.entry(ty.to_owned()).or_default().insert(file.to_owned());
        }
        for name in code.lines().filter_map(type_definition) {
            *self.types.entry(name.to_owned()).or_default() += 1;
        }
    }

    /// Returns the types with `impl` in many files. Types of the same name share the files.
    fn spread(&self) -> Vec<(&str, usize)> {
        let limit = |name: &str| MAX_IMPL_FILES * self.types.get(name).copied().unwrap_or(1).max(1);
        let counts = self.impls.iter().map(|(name, files)| (name.as_str(), files.len()));
        counts.filter(|(name, count)| *count > limit(name)).collect()
    }
}

/// Returns the type of an `impl` block that implements no trait.
fn inherent_impl(line: &str) -> Option<&str> {
    let mut rest = line.strip_prefix("impl").filter(|rest| rest.starts_with(['<', ' ']))?;
    if rest.starts_with('<') {
        let mut depth = 0;
        let end = rest.find(|character| {
            depth += i32::from(character == '<') - i32::from(character == '>');
            depth == 0
        })?;
        rest = &rest[end + 1..];
    }
    let rest = rest.trim_start();
    let name = &rest[..rest.find(|character| !is_word(character)).unwrap_or(rest.len())];
    (!name.is_empty() && !rest.contains(" for ")).then_some(name)
}

/// Returns the name of a struct or enum that a line defines.
fn type_definition(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line =
        line.strip_prefix("pub").map_or(line, |rest| rest.trim_start_matches(|c| c != ' ').trim_start());
    let name = line.strip_prefix("struct ").or_else(|| line.strip_prefix("enum "))?;
    Some(&name[..name.find(|character| !is_word(character)).unwrap_or(name.len())])
}

#[cfg(test)]
mod tests {
    use super::{inherent_impl, type_definition};

    #[test]
    fn only_inherent_impls_count() {
        let lines = [
            "impl Run {",
            "impl<T: Into<U>> Gate<T> {",
            "impl Drop for Run {",
            "    impl Nested {",
            "implode();",
        ];
        assert_eq!(lines.map(inherent_impl), [Some("Run"), Some("Gate"), None, None, None]);
    }

    #[test]
    fn types_are_found_by_their_definition() {
        let lines = ["pub(crate) struct Run {", "enum State<T> {", "pub struct Id(u64);", "impl Run {"];
        assert_eq!(lines.map(type_definition), [Some("Run"), Some("State"), Some("Id"), None]);
    }
}
