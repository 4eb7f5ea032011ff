//! The one list of files that run, or are obeyed, by themselves when a person works in a directory: git hooks and config,
//! editor tasks, and config of other agents.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use self::rules::{BEGINNINGS, DIRECTORIES, FILES, FILES_IN, GIT_DATA, GIT_FILES};
use crate::names::Names;

/// Intended use of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reads its content.
    Read,
    /// Changes its content, mode, owner, times, or attributes.
    Write,
    /// Adds a file, symlink, or socket under this name.
    Create,
    /// Adds a directory.
    MakeDir,
    /// Gives this file another name.
    Rename,
    /// Gives this directory, and all it contains, another name; or gives a directory this name.
    MoveDir,
    /// Removes this name.
    Remove,
}

pub(crate) mod rules {
    //! The list.

    /// Directories that are guarded with all they contain.
    pub(crate) const DIRECTORIES: [&str; 11] = [
        ".claude",
        ".codex",
        ".cursor",
        ".devcontainer",
        ".gemini",
        ".githooks",
        ".husky",
        ".idea",
        ".mise",
        ".rkat",
        ".zed",
    ];

    /// Files with these names are guarded.
    pub(crate) const FILES: [&str; 12] = [
        ".devcontainer.json",
        ".envrc",
        ".exrc",
        ".mcp.json",
        ".mise.local.toml",
        ".mise.toml",
        ".nvim.lua",
        ".nvimrc",
        ".pre-commit-config.yaml",
        ".vimrc",
        "mise.local.toml",
        "mise.toml",
    ];

    /// Files whose names begin like this are guarded.
    pub(crate) const BEGINNINGS: [&str; 4] =
        [".lefthook.", ".lefthook-local.", "lefthook.", "lefthook-local."];

    /// Directories, and the ends of the names of guarded files in them. Others may be created in them.
    pub(crate) const FILES_IN: [(&str, &[&str]); 3] =
        [(".vscode", &[".json"]), (".cargo", &["config", "config.toml"]), ("mise", &["config.toml"])];

    /// Files of a git directory that name programs, or another directory with such a file.
    pub(crate) const GIT_FILES: [&str; 4] = ["config", "config.worktree", "commondir", "gitdir"];

    /// Directories of a git directory whose files are data, whatever their names.
    pub(crate) const GIT_DATA: [&str; 3] = ["logs", "objects", "refs"];
}

const GIT: &str = ".git";

/// Returns `true` if an access to a path below a writable directory is guarded. Case does not matter: it does not
/// either in some file systems.
pub(crate) fn is_guarded(relative: &Path, access: Access) -> bool {
    let parts: Vec<_> = relative.iter().map(|part| part.to_string_lossy().to_ascii_lowercase()).collect();
    let Some((last, parents)) = parts.split_last() else { return false };
    let is_file = FILES.contains(&&**last)
        || BEGINNINGS.iter().any(|beginning| last.starts_with(beginning))
        || last.ends_with(".code-workspace");
    if is_file || parts.iter().any(|part| DIRECTORIES.contains(&&**part)) {
        return true;
    }
    for (directory, ends) in FILES_IN {
        let is_inside = parents.last().is_some_and(|parent| parent == directory);
        if is_inside && ends.iter().any(|end| last.ends_with(end)) {
            return true;
        }
    }
    if [GIT, ".vscode", ".cargo"].contains(&&**last) {
        return access != Access::MakeDir;
    }
    let Some(git) = parts.iter().position(|part| part == GIT) else { return false };
    let inside = &parts[git + 1..];
    if inside.first().is_some_and(|first| GIT_DATA.contains(&&**first)) {
        return false;
    }
    access == Access::MoveDir || inside.iter().any(|part| part == "hooks") || GIT_FILES.contains(&&**last)
}

impl Names {
    /// Adds what the guarded names at the top of each root lead to now: git directories that lie elsewhere, their hooks
    /// and config, and targets of symlinks.
    pub fn find_guards(&mut self) {
        for root in self.roots.clone() {
            let tops = DIRECTORIES.iter().chain(&FILES).chain(&[".vscode", ".cargo", "lefthook.yml"]);
            self.guarded.extend(tops.filter_map(|name| link_target(&root.join(name))));
            let git = root.join(GIT);
            let Some(dir) = git_dir(&git) else { continue };
            let common =
                pointer(&dir.join("commondir"), "").and_then(|common| dir.join(common).canonicalize().ok());
            for dir in [Some(dir), common].into_iter().flatten() {
                let names = ["hooks", "config", "config.worktree", "modules"];
                self.guarded.extend(names.iter().filter_map(|name| link_target(&dir.join(name))));
                self.guarded.extend(named_in_config(&root, &dir));
                if dir != git && !self.git_dirs.contains(&dir) {
                    self.git_dirs.push(dir);
                }
            }
        }
        // A directory that contains a root would leave nothing to write.
        self.guarded.retain(|path| !self.roots.iter().any(|root| root.starts_with(path)));
        self.guarded.sort();
        self.guarded.dedup();
    }
}

/// Returns what a symlink leads to.
fn link_target(path: &Path) -> Option<PathBuf> {
    let is_link = path.symlink_metadata().is_ok_and(|file| file.is_symlink());
    is_link.then(|| path.canonicalize().ok()).flatten()
}

/// Returns the git directory that a name means: itself, or the one that the file names.
fn git_dir(path: &Path) -> Option<PathBuf> {
    let real = path.canonicalize().ok()?;
    if real.is_dir() {
        return Some(real);
    }
    real.parent()?.join(pointer(&real, "gitdir:")?).canonicalize().ok()
}

/// Reads the path that a file consists of, after a prefix.
fn pointer(file: &Path, prefix: &str) -> Option<PathBuf> {
    Some(read(file)?.strip_prefix(prefix)?.trim().into())
}

fn read(file: &Path) -> Option<String> {
    const MAX: u64 = 1 << 20;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    fs::File::open(file).ok()?.take(MAX).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Returns the directory of hooks and the files that a git config names.
fn named_in_config(root: &Path, dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut is_include = false;
    for line in read(&dir.join("config")).unwrap_or_default().lines() {
        let line = line.trim();
        if line.starts_with('[') {
            is_include = line.to_ascii_lowercase().starts_with("[include");
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        let value = value.trim().trim_matches('"');
        let base = match key.trim().to_ascii_lowercase().as_str() {
            "hookspath" => root,
            "path" if is_include => dir,
            _ => continue,
        };
        let path = base.join(value);
        found.push(path.canonicalize().unwrap_or(path));
    }
    found
}
