//! The one list of files that run, or are obeyed, by themselves when a person works in a directory: git hooks and config,
//! editor tasks, and config of other agents.

use std::path::Path;

use self::rules::{BEGINNINGS, DIRECTORIES, FILES, FILES_IN, GIT_DATA, GIT_FILES};

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

pub(crate) const GIT: &str = ".git";

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
