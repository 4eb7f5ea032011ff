//! The judgment of a file by its real path: secret, guarded, or neither.
//!
//! The gate judges the object that it opened; tools that open files themselves judge the same way.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::guard::{self, Access};

/// The result of a judgment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The names do not forbid it.
    Allowed,
    /// The file is a secret of the user.
    Secret,
    /// Programs of the user run this file, or obey it, by themselves.
    Guarded,
}

/// The names of secret and guarded files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Names {
    /// Writable directories. Guarded names apply inside them, and patterns with `/` are relative to them.
    pub roots: Vec<PathBuf>,
    /// Secret files and directories, by real path.
    pub places: Vec<PathBuf>,
    /// Patterns of secret names, in which `*` matches any characters except `/`. The last matching pattern decides. A
    /// pattern with `!` before it is an exception; one that contains `/` is a path relative to a root.
    pub patterns: Vec<String>,
}

impl Names {
    /// Judges a file by its real path.
    #[must_use]
    pub fn judge(&self, real: &Path, access: Access) -> Verdict {
        if self.places.iter().any(|place| real.starts_with(place)) {
            return Verdict::Secret;
        }
        let relative = self.roots.iter().filter_map(|root| real.strip_prefix(root).ok());
        let relative = relative.min_by_key(|relative| relative.as_os_str().len());
        if access != Access::Read && relative.is_some_and(|relative| guard::is_guarded(relative, access)) {
            return Verdict::Guarded;
        }
        match access {
            Access::MoveDir if self.names_below(real, relative) => Verdict::Secret,
            Access::Read | Access::Write | Access::Rename if self.is_secret(real, relative) => {
                Verdict::Secret
            }
            _ => Verdict::Allowed,
        }
    }

    /// Returns the outermost root that a path is in.
    pub(crate) fn root(&self, real: &Path) -> Option<&Path> {
        let roots = self.roots.iter().filter(|root| real.starts_with(root) && real != *root);
        roots.min_by_key(|root| root.as_os_str().len()).map(PathBuf::as_path)
    }

    /// Returns `true` if a pattern matches a file.
    fn is_secret(&self, real: &Path, relative: Option<&Path>) -> bool {
        let name = real.file_name().unwrap_or_default().to_string_lossy();
        let relative = relative.map(|relative| relative.to_string_lossy());
        let decides = |pattern: &String| {
            let (pattern, secret) =
                pattern.strip_prefix('!').map_or((pattern.as_str(), true), |rest| (rest, false));
            let text = if pattern.contains('/') { relative.as_deref() } else { Some(&*name) };
            text.is_some_and(|text| fits(pattern, text)).then_some(secret)
        };
        self.patterns.iter().rev().find_map(decides).unwrap_or(false)
    }

    /// Returns `true` if a secret place or pattern names a path below a directory, which would change with its name.
    fn names_below(&self, real: &Path, relative: Option<&Path>) -> bool {
        let depth = relative.map_or(0, |relative| relative.components().count());
        let is_below = |pattern: &String| {
            let parts: Vec<_> = pattern.trim_start_matches('!').split('/').collect();
            let parents = parts.get(..depth).filter(|_| depth > 0 && parts.len() > depth);
            parents.zip(relative).is_some_and(|(parents, relative)| {
                let names = relative.iter().map(|name| name.to_string_lossy());
                parents.iter().zip(names).all(|(pattern, name)| fits(pattern, &name))
            })
        };
        self.places.iter().any(|place| place.starts_with(real)) || self.patterns.iter().any(is_below)
    }
}

/// Matches a pattern; `*` matches any characters except `/`.
fn fits(pattern: &str, text: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else { return pattern == text };
    let Some(rest) = text.strip_prefix(head) else { return false };
    let reach = rest.find('/').unwrap_or(rest.len());
    let mut ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]).take_while(|at| *at <= reach);
    ends.any(|at| fits(tail, &rest[at..]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names() -> Names {
        let patterns = [".env", ".env.*", "!.env.example", "deploy/*.key", "!a/.env"];
        Names {
            roots: vec!["/work".into()],
            places: vec!["/home/u/.ssh".into(), "/work/keys/vault".into()],
            patterns: patterns.map(str::to_owned).to_vec(),
        }
    }

    #[test]
    fn names_are_judged_by_access() {
        use Access::{Create, MakeDir, MoveDir, Read, Remove, Rename, Write};
        use Verdict::{Allowed, Guarded, Secret};
        let table = [
            ("/work/.env", Read, Secret),
            ("/elsewhere/deep/.env.local", Read, Secret),
            ("/work/.env.example", Read, Allowed),
            ("/work/a/.env", Read, Allowed),
            ("/work/b/a/.env", Read, Secret),
            ("/work/.env", Write, Secret),
            ("/work/.env", Rename, Secret),
            ("/work/.env", Create, Allowed),
            ("/work/.env", Remove, Allowed),
            ("/work/deploy/tls.key", Read, Secret),
            ("/work/deploy/old/tls.key", Read, Allowed),
            ("/work/deploy", MoveDir, Secret),
            ("/work/keys", MoveDir, Secret),
            ("/work/src", MoveDir, Allowed),
            ("/home/u/.ssh/config", Read, Secret),
            ("/home/u/.ssh2", Read, Allowed),
            ("/work/.git/config", Read, Allowed),
            ("/work/.git/config", Write, Guarded),
            ("/work/sub/.git/config.lock", Create, Allowed),
            ("/work/.git/modules/x/hooks/pre-commit", Create, Guarded),
            ("/work/.git/commondir", Create, Guarded),
            ("/work/.git/refs/heads/config", Create, Allowed),
            ("/work/.git/index", Rename, Allowed),
            ("/work/.git", Create, Guarded),
            ("/work/.git", MoveDir, Guarded),
            ("/work/.git/modules/x", MoveDir, Guarded),
            ("/work/.git", MakeDir, Allowed),
            ("/work/.git/hooks", MakeDir, Guarded),
            ("/work/p/.envrc", Create, Guarded),
            ("/work/.vscode/tasks.json", Create, Guarded),
            ("/work/.vscode", MoveDir, Guarded),
            ("/work/.husky", MakeDir, Guarded),
            ("/work/.husky/pre-commit", Remove, Guarded),
            ("/tmp/.envrc", Create, Allowed),
        ];
        let verdict = |(path, access, _): &(&'static str, Access, Verdict)| {
            (*path, *access, names().judge(Path::new(path), *access))
        };
        assert_eq!(table.iter().map(verdict).collect::<Vec<_>>(), table);
    }

    proptest! {
        #[test]
        fn secrets_stay_secret_in_any_directory(dirs in "(/[a-z.]{1,8}){0,6}") {
            let path = format!("/work{dirs}/.env.local");
            prop_assert_eq!(names().judge(Path::new(&path), Access::Read), Verdict::Secret);
        }

        #[test]
        fn judge_accepts_any_path_and_pattern(path in ".{0,40}", pattern in ".{0,20}") {
            let names = Names { patterns: vec![pattern], ..names() };
            for access in [Access::Read, Access::MoveDir, Access::Create] {
                let _ = names.judge(Path::new(&path), access);
            }
        }
    }
}
