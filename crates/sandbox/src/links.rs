//! Files that guarded names lead to: targets of symlinks, git directories elsewhere, and what a git config names.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::guard::GIT;
use crate::guard::rules::{DIRECTORIES, FILES};
use crate::names::Names;

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
