//! `docs`: the reference pages, which are generated from the code.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::process::{self, cargo, root};

const REFERENCE: &str = "docs/reference";

/// Writes the reference pages to their directory.
pub(crate) fn write() -> Result<(), Error> {
    generate(&root().join(REFERENCE))
}

/// Compares the reference pages with the generated ones, and reports those that differ.
pub(crate) fn compare() -> Result<(), Error> {
    let fresh = std::env::temp_dir().join(format!("meerkat-reference-{}", std::process::id()));
    let outcome = compare_with(&fresh);
    // Failing to clean up the temporary directory does not change the result.
    let _ = fs::remove_dir_all(&fresh);
    outcome
}

fn compare_with(fresh: &Path) -> Result<(), Error> {
    fs::create_dir_all(fresh).map_err(Error::file(fresh))?;
    generate(fresh)?;
    let differences = differences(&pages(&root().join(REFERENCE))?, &pages(fresh)?);
    if differences.is_empty() { Ok(()) } else { Err(Error::Reference { differences }) }
}

fn generate(dir: &Path) -> Result<(), Error> {
    let program = ["run", "--quiet", "--package", "rkat", "--example", "reference", "--"];
    process::run(cargo(program).arg(dir))
}

/// Files of a directory by their relative path.
type Pages = BTreeMap<PathBuf, Vec<u8>>;

fn pages(dir: &Path) -> Result<Pages, Error> {
    let mut found = Pages::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(next) = dirs.pop() {
        if !next.exists() {
            continue;
        }
        for entry in fs::read_dir(&next).map_err(Error::file(&next))? {
            let path = entry.map_err(Error::file(&next))?.path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                let bytes = fs::read(&path).map_err(Error::file(&path))?;
                found.insert(path.strip_prefix(dir).unwrap_or(&path).to_owned(), bytes);
            }
        }
    }
    Ok(found)
}

fn differences(committed: &Pages, fresh: &Pages) -> Vec<String> {
    let written = fresh.iter().filter_map(|(path, bytes)| match committed.get(path) {
        None => Some(format!("{REFERENCE}/{}: missing", path.display())),
        Some(old) if old != bytes => Some(format!("{REFERENCE}/{}: differs", path.display())),
        Some(_) => None,
    });
    let left_over = committed.keys().filter(|path| !fresh.contains_key(*path));
    let left_over =
        left_over.map(|path| format!("{REFERENCE}/{}: not generated from the code", path.display()));
    written.chain(left_over).collect()
}

#[cfg(test)]
mod tests {
    use super::{Pages, differences};

    fn pages(files: &[(&str, &str)]) -> Pages {
        files.iter().map(|(path, text)| (path.into(), text.as_bytes().to_vec())).collect()
    }

    #[test]
    fn every_kind_of_difference_is_reported() {
        let committed = pages(&[("same.md", "a"), ("changed.md", "old"), ("gone.md", "b")]);
        let fresh = pages(&[("same.md", "a"), ("changed.md", "new"), ("added.md", "c")]);
        assert_eq!(
            differences(&committed, &fresh),
            [
                "docs/reference/added.md: missing",
                "docs/reference/changed.md: differs",
                "docs/reference/gone.md: not generated from the code",
            ]
        );
    }
}
