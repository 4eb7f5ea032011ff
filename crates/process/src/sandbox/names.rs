//! Files that are secret by name, anywhere in a directory.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Maximum number of directory entries to visit, in breadth-first order.
const MAX_ENTRIES: usize = 10_000;

/// Directories with downloaded or built files, which contain no secrets of the user.
const SKIPPED: [&str; 6] = [".git", ".venv", "__pycache__", "node_modules", "target", "venv"];

/// Patterns of secret names. The last matching pattern decides.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretNames(Vec<String>);

impl SecretNames {
    /// Creates it from patterns, in which `*` matches any characters. A pattern with `!` before it is an exception; one
    /// that contains `/` is a path relative to the directory, and others are names of files anywhere in it.
    #[must_use]
    pub fn new(patterns: Vec<String>) -> Self {
        Self(patterns)
    }

    /// Returns `true` if a file is secret, by its path relative to the directory.
    #[must_use]
    pub fn is_secret(&self, path: &Path) -> bool {
        let path = &*path.to_string_lossy();
        let name = path.rsplit('/').next().unwrap_or(path);
        let decides = |pattern: &String| {
            let (wanted, secret) =
                pattern.strip_prefix('!').map_or((pattern.as_str(), true), |rest| (rest, false));
            fits_pattern(wanted, if wanted.contains('/') { path } else { name }).then_some(secret)
        };
        self.0.iter().rev().find_map(decides).unwrap_or(false)
    }

    /// Lists the secret files in a directory, by their real paths.
    pub(super) fn find(&self, dir: &Path) -> Vec<PathBuf> {
        let (mut found, mut seen) = (Vec::new(), 0);
        if self.0.is_empty() {
            return found;
        }
        let mut open = VecDeque::from([dir.to_owned()]);
        while let Some(next) = open.pop_front() {
            for entry in std::fs::read_dir(&next).into_iter().flatten().flatten() {
                seen += 1;
                if seen > MAX_ENTRIES {
                    return found;
                }
                let Ok(kind) = entry.file_type() else { continue };
                if kind.is_dir() {
                    let passed = entry.file_name().to_str().is_some_and(|name| SKIPPED.contains(&name));
                    open.extend((!passed).then(|| entry.path()));
                } else if entry.path().strip_prefix(dir).is_ok_and(|path| self.is_secret(path)) {
                    found.extend(entry.path().canonicalize().ok().filter(|path| path.is_file()));
                }
            }
        }
        found
    }
}

/// Matches a pattern; `*` matches any characters except `/`.
#[must_use]
pub fn fits_pattern(pattern: &str, text: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else { return pattern == text };
    let Some(rest) = text.strip_prefix(head) else { return false };
    let reach = rest.find('/').unwrap_or(rest.len());
    let mut ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]).take_while(|at| *at <= reach);
    ends.any(|at| fits_pattern(tail, &rest[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(patterns: &[&str]) -> SecretNames {
        SecretNames::new(patterns.iter().map(|pattern| (*pattern).to_owned()).collect())
    }

    #[test]
    fn last_matching_pattern_decides() {
        let names = names(&[".env", ".env.*", "!.env.example", "deploy/*.key", "!a/.env"]);
        let table = [
            (".env", true),
            ("web/.env", true),
            (".env.local", true),
            (".env.example", false),
            ("web/.env.example", false),
            (".environment", false),
            ("env", false),
            ("deploy/tls.key", true),
            ("tls.key", false),
            ("deploy/old/tls.key", false),
            ("a/.env", false),
            ("b/a/.env", true),
        ];
        let results: Vec<_> =
            table.iter().map(|(path, _)| (*path, names.is_secret(Path::new(path)))).collect();
        assert_eq!(results, table);
    }

    #[test]
    fn secrets_are_found_in_subdirs_and_via_symlinks() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().canonicalize().unwrap();
        for dir in ["work/web/api", "work/node_modules/x", "work/old/.env", "shared"] {
            std::fs::create_dir_all(root.join(dir)).unwrap();
        }
        for file in
            ["work/.env", "work/web/api/.env", "work/node_modules/x/.env", "work/other", "shared/real"]
        {
            std::fs::write(root.join(file), "x").unwrap();
        }
        std::os::unix::fs::symlink(root.join("shared/real"), root.join("work/web/.env")).unwrap();
        let mut found = names(&[".env"]).find(&root.join("work"));
        found.sort();
        assert_eq!(found, ["shared/real", "work/.env", "work/web/api/.env"].map(|path| root.join(path)));
    }
}
