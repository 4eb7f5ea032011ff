//! Rules of `.gitignore`, `.ignore`, and `.git/info/exclude`.
//!
//! These files are read like any other workspace file: one that is a pipe, is too long, or leads out of the workspace
//! has no rules.

use std::path::Path;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::root::{Root, WorkspacePath};

/// Maximum size of a file of rules.
const MAX_BYTES: u64 = 256 * 1024;

/// The rules of one directory.
pub(super) struct Rules {
    ignore: Gitignore,
    gitignore: Gitignore,
    exclude: Gitignore,
    /// Whether a repository starts here; `.gitignore` files above it do not apply.
    is_repository: bool,
}

impl Rules {
    /// Reads the rules of a directory.
    pub(super) fn read(root: &Root, dir: &Path) -> Self {
        let rules = |name: &str| rules(root, dir, name);
        Self {
            ignore: rules(".ignore"),
            gitignore: rules(".gitignore"),
            exclude: rules(".git/info/exclude"),
            is_repository: root.exists(&WorkspacePath::beneath(dir.join(".git"))),
        }
    }
}

fn rules(root: &Root, dir: &Path, name: &str) -> Gitignore {
    let place = WorkspacePath::beneath(dir.join(name));
    let Ok(data) = root.read(&place, MAX_BYTES, "is too long") else { return Gitignore::empty() };
    let mut builder = GitignoreBuilder::new(root.path().join(dir));
    for line in String::from_utf8_lossy(&data).trim_start_matches('\u{feff}').lines() {
        // An invalid pattern has no effect, as with git.
        let _ = builder.add_line(None, line);
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

/// Returns `true` if a path is ignored by the rules of its directory or those above it; outermost rules come first.
pub(super) fn is_ignored<'a>(
    rules: impl DoubleEndedIterator<Item = &'a Rules>,
    path: &Path,
    is_dir: bool,
) -> bool {
    // The nearest deciding file wins, and each kind of file takes precedence over the next.
    let mut found = [Match::None, Match::None, Match::None];
    let mut in_repository = true;
    for rules in rules.rev() {
        let kinds =
            [(&rules.ignore, true), (&rules.gitignore, in_repository), (&rules.exclude, in_repository)];
        for (found, (rules, applies)) in found.iter_mut().zip(kinds) {
            if found.is_none() && applies {
                *found = rules.matched(path, is_dir);
            }
        }
        in_repository &= !rules.is_repository;
    }
    found.iter().find(|found| !found.is_none()).is_some_and(Match::is_ignore)
}
