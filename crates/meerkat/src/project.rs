//! The project root of a directory, used to find both the realm and the files in `.rkat`.

use std::path::{Path, PathBuf};

/// The user's directories, which are never projects.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct UserDirs<'a> {
    /// The home directory. Neither it nor a directory above it is a project, regardless of its contents.
    pub(crate) home: Option<&'a Path>,
    /// The directory of the user's own files, if it is not the home directory. Its `.rkat` does not mark a project.
    pub(crate) config_root: Option<&'a Path>,
}

/// Returns the root of the project that `dir` belongs to: the nearest directory, from `dir` upward, that contains
/// `.rkat` or `.git`, or else `dir` itself.
pub(crate) fn project_root(dir: &Path, user: UserDirs<'_>) -> PathBuf {
    let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    let (home, config_root) = (user.home.map(resolve_symlinks), user.config_root.map(resolve_symlinks));
    let is_root = |dir: &&Path| {
        let (rkat, git) = (dir.join(".rkat").is_dir(), dir.join(".git").exists());
        if !rkat && !git {
            return false;
        }
        let real = resolve_symlinks(dir);
        let is_above_home = home.as_ref().is_some_and(|home| home.starts_with(&real));
        !is_above_home && (git || config_root.as_ref() != Some(&real))
    };
    dir.ancestors().find(is_root).unwrap_or(&dir).to_owned()
}

/// Returns the directory whose realm earlier versions used in `dir`: the nearest one that contains `.rkat`, even if it
/// is the home directory.
pub(crate) fn former_root(dir: &Path) -> &Path {
    dir.ancestors().find(|dir| dir.join(".rkat").is_dir()).unwrap_or(dir)
}

/// Returns `true` if both paths lead to the same directory or file.
#[cfg(feature = "mcp")]
pub(crate) fn is_same_path(one: &Path, other: &Path) -> bool {
    resolve_symlinks(one) == resolve_symlinks(other)
}

/// Returns a path with symlinks resolved, or the path itself if it does not exist.
pub(crate) fn resolve_symlinks(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Tree(tempfile::TempDir);

    impl Tree {
        /// Creates directories; a name that ends in `!` is a file.
        fn new(names: &[&str]) -> Self {
            let tree = Self(tempfile::tempdir().unwrap());
            for name in names {
                match name.strip_suffix('!') {
                    Some(file) => std::fs::write(tree.path(file), "").unwrap(),
                    None => std::fs::create_dir_all(tree.path(name)).unwrap(),
                }
            }
            tree
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(name)
        }

        /// Returns the project of a directory, relative to the tree.
        fn project(&self, dir: &str) -> String {
            let home = self.path("home");
            self.relative(&project_root(&self.path(dir), UserDirs { home: Some(&home), config_root: None }))
        }

        fn relative(&self, path: &Path) -> String {
            path.strip_prefix(self.path("")).unwrap().display().to_string()
        }
    }

    #[test]
    fn nearest_marked_directory_is_the_project() {
        let tree =
            Tree::new(&["home/a/.git", "home/a/b/.rkat", "home/a/b/c/d", "home/a/e", "out/.rkat", "out/f"]);
        let projects =
            ["home/a/b/c/d", "home/a/b", "home/a/e", "home/a", "out/f"].map(|dir| tree.project(dir));
        assert_eq!(projects, ["home/a/b", "home/a/b", "home/a", "home/a", "out"]);
    }

    #[test]
    fn git_file_of_a_worktree_marks_a_project() {
        let tree = Tree::new(&["home/tree/src", "home/tree/.git!"]);
        assert_eq!(tree.project("home/tree/src"), "home/tree");
    }

    #[test]
    fn home_and_its_parents_are_never_projects() {
        let tree = Tree::new(&[".git", "home/.rkat", "home/.git", "home/a/b", "out"]);
        assert_eq!(
            ["home/a/b", "home/a", "home"].map(|dir| tree.project(dir)),
            ["home/a/b", "home/a", "home"]
        );
        assert_eq!(tree.project("out"), "out", "a directory above the home directory");
    }

    #[test]
    fn unmarked_directory_is_its_own_project() {
        let tree = Tree::new(&["home/a/b"]);
        assert_eq!(tree.project("home/a/b"), "home/a/b");
    }

    #[cfg(unix)]
    #[test]
    fn home_behind_a_symlink_is_not_a_project() {
        let tree = Tree::new(&["disk/.rkat", "disk/a"]);
        std::os::unix::fs::symlink(tree.path("disk"), tree.path("home")).unwrap();
        assert_eq!(
            (tree.project("disk/a"), tree.project("home/a")),
            ("disk/a".to_owned(), "home/a".to_owned())
        );
    }

    #[test]
    fn config_root_is_a_project_only_with_git() {
        let tree = Tree::new(&["ci/.rkat", "ci/a", "repo/.git", "repo/.rkat", "repo/a"]);
        let project = |dir: &str, root: &str| {
            let root = tree.path(root);
            tree.relative(&project_root(&tree.path(dir), UserDirs { home: None, config_root: Some(&root) }))
        };
        assert_eq!(
            (project("ci/a", "ci"), project("repo/a", "repo")),
            ("ci/a".to_owned(), "repo".to_owned())
        );
    }
}
