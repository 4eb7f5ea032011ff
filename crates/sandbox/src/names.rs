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
    /// Git directories outside the roots' own `.git`, by real path; [`Names::find_guards`] adds those that it finds.
    #[serde(default)]
    pub git_dirs: Vec<PathBuf>,
    /// Files and directories that are guarded in addition to the list, by real path.
    #[serde(default)]
    pub guarded: Vec<PathBuf>,
    /// Patterns, as those of secrets, of names in the list that are not guarded, with all below them.
    #[serde(default)]
    pub unguarded: Vec<String>,
}

impl Names {
    /// Judges a file by its real path.
    #[must_use]
    pub fn judge(&self, real: &Path, access: Access) -> Verdict {
        if self.places.iter().any(|place| below(real, place).is_some()) {
            return Verdict::Secret;
        }
        if access != Access::Read && self.is_guarded(real, access) {
            return Verdict::Guarded;
        }
        let mut relatives: Vec<_> =
            self.roots.iter().filter_map(|root| below(real, root)).map(Some).collect();
        if relatives.is_empty() {
            relatives.push(None);
        }
        let is_secret = |relative: &Option<&Path>| match access {
            Access::MoveDir => self.names_below(real, *relative),
            Access::Read | Access::Write | Access::Rename => self.is_secret(real, *relative),
            Access::Create | Access::MakeDir | Access::Remove => false,
        };
        if relatives.iter().any(is_secret) { Verdict::Secret } else { Verdict::Allowed }
    }

    /// Returns `true` if files that run by themselves would change.
    fn is_guarded(&self, real: &Path, access: Access) -> bool {
        let is_moved = |path: &Path| access == Access::MoveDir && below(path, real).is_some();
        if self.guarded.iter().any(|path| below(real, path).is_some() || is_moved(path))
            || self.git_dirs.iter().any(|path| is_moved(path))
        {
            return true;
        }
        let in_git = self.git_dirs.iter().filter_map(|dir| below(real, dir));
        if in_git.map(|inside| Path::new(".git").join(inside)).any(|path| guard::is_guarded(&path, access)) {
            return true;
        }
        self.roots.iter().any(|root| {
            let Some(relative) = below(real, root) else { return false };
            if relative.as_os_str().is_empty() || self.is_unguarded(relative) {
                return false;
            }
            // A root in a git directory is a part of that.
            let git = root.iter().position(|part| part.eq_ignore_ascii_case(".git")).unwrap_or(usize::MAX);
            let inside: PathBuf = root.iter().skip(git).collect();
            guard::is_guarded(&inside.join(relative), access)
        })
    }

    fn is_unguarded(&self, relative: &Path) -> bool {
        relative.ancestors().any(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            self.unguarded.iter().any(|pattern| {
                let text = if pattern.contains('/') { path.to_string_lossy() } else { name.clone() };
                fits(pattern, &text, Case::Matters)
            })
        })
    }

    /// Returns the outermost root that a path is in.
    #[cfg(target_os = "linux")]
    pub(crate) fn root(&self, real: &Path) -> Option<&Path> {
        let roots = self.roots.iter().filter(|root| real.starts_with(root) && real != *root);
        roots.min_by_key(|root| root.as_os_str().len()).map(PathBuf::as_path)
    }

    /// Returns `true` if a pattern matches a file. Case matters for exceptions only: it does not in some file systems.
    fn is_secret(&self, real: &Path, relative: Option<&Path>) -> bool {
        let name = real.file_name().unwrap_or_default().to_string_lossy();
        let relative = relative.map(|relative| relative.to_string_lossy());
        let decides = |pattern: &String| {
            let (pattern, is_secret, case) = match pattern.strip_prefix('!') {
                Some(rest) => (rest, false, Case::Matters),
                None => (pattern.as_str(), true, Case::Ignored),
            };
            let text = if pattern.contains('/') { relative.as_deref() } else { Some(&*name) };
            text.is_some_and(|text| fits(pattern, text, case)).then_some(is_secret)
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
                parents.iter().zip(names).all(|(pattern, name)| fits(pattern, &name, Case::Ignored))
            })
        };
        self.places.iter().any(|place| below(place, real).is_some()) || self.patterns.iter().any(is_below)
    }
}

/// Returns the part of a path below a directory, without regard to case.
pub(crate) fn below<'a>(path: &'a Path, dir: &Path) -> Option<&'a Path> {
    let mut rest = path.components();
    dir.components()
        .all(|part| rest.next().is_some_and(|name| name.as_os_str().eq_ignore_ascii_case(part.as_os_str())))
        .then_some(rest.as_path())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Case {
    Matters,
    Ignored,
}

/// Matches a pattern; `*` matches any characters except `/`.
fn fits(pattern: &str, text: &str, case: Case) -> bool {
    let is_equal =
        |a: &[u8], b: &[u8]| if case == Case::Ignored { a.eq_ignore_ascii_case(b) } else { a == b };
    let Some((head, tail)) = pattern.split_once('*') else {
        return is_equal(pattern.as_bytes(), text.as_bytes());
    };
    let Some((start, rest)) = text.split_at_checked(head.len()) else { return false };
    if !is_equal(start.as_bytes(), head.as_bytes()) {
        return false;
    }
    let reach = rest.find('/').unwrap_or(rest.len());
    let mut ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]).take_while(|at| *at <= reach);
    ends.any(|at| fits(tail, &rest[at..], case))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names() -> Names {
        let patterns = [".env", ".env.*", "!.env.example", "deploy/*.key", "!a/.env"];
        Names {
            roots: vec!["/work".into(), "/work/deploy".into(), "/main/.git/worktrees/v".into()],
            places: vec!["/home/u/.ssh".into(), "/work/keys/vault".into()],
            patterns: patterns.map(str::to_owned).to_vec(),
            git_dirs: vec!["/repo/.git/worktrees/w".into(), "/work/store/g".into()],
            guarded: vec!["/work/tools/hooks".into()],
            unguarded: [".zed", "sub/mise.toml"].map(str::to_owned).to_vec(),
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
            ("/work/.ENV", Read, Secret),
            ("/work/.ENV.Example", Read, Secret),
            ("/work/Deploy/tls.KEY", Read, Secret),
            ("/home/u/.SSH/config", Read, Secret),
            ("/work/.Git/Hooks/pre-commit", Create, Guarded),
            ("/work/.GIT/config", Write, Guarded),
            ("/work/a.code-workspace", Create, Guarded),
            ("/work/.lefthook.toml", Create, Guarded),
            ("/work/lefthook-local.yml", Create, Guarded),
            ("/work/.cargo/config.toml", Create, Guarded),
            ("/work/.cargo/registry", MakeDir, Allowed),
            ("/work/.cargo", MakeDir, Allowed),
            ("/work/.cargo", MoveDir, Guarded),
            ("/work/.gemini/settings.json", Write, Guarded),
            ("/work/.vimrc", Create, Guarded),
            ("/work/mise.toml", Create, Guarded),
            ("/work/sub/mise.toml", Create, Allowed),
            ("/work/.zed/tasks.json", Create, Allowed),
            ("/repo/.git/worktrees/w/config.worktree", Create, Guarded),
            ("/repo/.git/worktrees/w/index", Create, Allowed),
            ("/work/store/g/hooks/pre-commit", Create, Guarded),
            ("/work/store/g/index.lock", Create, Allowed),
            ("/work/store", MoveDir, Guarded),
            ("/work/tools/hooks/pre-commit", Write, Guarded),
            ("/work/tools", MoveDir, Guarded),
            ("/work/tools/other", Create, Allowed),
            ("/main/.git/worktrees/v/hooks/x", Create, Guarded),
            ("/main/.git/worktrees/v/HEAD", Write, Allowed),
            ("/work/nested/deploy/tls.key", Read, Allowed),
            ("/work/deploy/inner/tls.key", Read, Allowed),
        ];
        let verdict = |(path, access, _): &(&'static str, Access, Verdict)| {
            (*path, *access, names().judge(Path::new(path), *access))
        };
        assert_eq!(table.iter().map(verdict).collect::<Vec<_>>(), table);
    }

    #[cfg(unix)]
    #[test]
    fn guards_follow_symlinks_and_pointers() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for name in ["w/store/g/modules", "w/shared/hooks", "w/editor", "common/hooks", "w/tools"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        let config =
            "[core]\n\thooksPath = tools/hooks\n[include]\n\tpath = ../../extra\n[other]\n\tpath = x\n";
        for (name, text) in [
            ("w/.git", "gitdir: store/g\n"),
            ("w/store/g/commondir", "../../../common\n"),
            ("w/store/g/config", config),
        ] {
            std::fs::write(root.join(name), text).unwrap();
        }
        for (target, link) in [("../../shared/hooks", "w/store/g/hooks"), ("editor", "w/.vscode")] {
            std::os::unix::fs::symlink(target, root.join(link)).unwrap();
        }
        let mut names = Names { roots: vec![root.join("w")], ..Names::default() };
        names.find_guards();
        assert_eq!(names.git_dirs, [root.join("w/store/g"), root.join("common")]);
        let expected = ["w/editor", "w/shared/hooks", "w/store/g/../../extra", "w/tools/hooks"];
        assert_eq!(names.guarded, expected.map(|name| root.join(name)));
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
