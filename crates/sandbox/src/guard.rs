//! The one list of files that run, or are obeyed, by themselves when a person works in a directory: git hooks and config,
//! editor tasks, and config of other agents.

use std::path::Path;

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

/// Directories that are guarded with all they contain.
const DIRECTORIES: [&str; 8] =
    [".claude", ".codex", ".cursor", ".devcontainer", ".githooks", ".husky", ".idea", ".rkat"];

/// Files with these names are guarded.
const FILES: [&str; 7] =
    [".envrc", ".exrc", ".mcp.json", ".nvim.lua", ".pre-commit-config.yaml", "lefthook.yml", "lefthook.yaml"];

/// Files of a git directory that name programs, or another directory with such a file.
const GIT_FILES: [&str; 4] = ["config", "config.worktree", "commondir", "gitdir"];

/// Directories of a git directory whose files are data, whatever their names.
const GIT_DATA: [&str; 3] = ["logs", "objects", "refs"];

/// Returns `true` if an access to a path below a writable directory is guarded.
pub(crate) fn is_guarded(relative: &Path, access: Access) -> bool {
    let parts: Vec<_> = relative.iter().map(|part| part.to_string_lossy()).collect();
    let Some((last, parents)) = parts.split_last() else { return false };
    if parts.iter().any(|part| DIRECTORIES.contains(&&**part)) || FILES.contains(&&**last) {
        return true;
    }
    if parents.last().is_some_and(|parent| parent == ".vscode") && last.ends_with(".json") {
        return true;
    }
    if last == ".vscode" || last == ".git" {
        return access != Access::MakeDir;
    }
    let Some(git) = parts.iter().position(|part| part == ".git") else { return false };
    let inside = &parts[git + 1..];
    if inside.first().is_some_and(|first| GIT_DATA.contains(&&**first)) {
        return false;
    }
    access == Access::MoveDir || inside.iter().any(|part| part == "hooks") || GIT_FILES.contains(&&**last)
}
