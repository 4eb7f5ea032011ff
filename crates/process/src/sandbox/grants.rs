//! The parts of a directory to grant when others in it are hidden.
//!
//! Rules can only allow, and apply to everything beneath. So a directory that contains a hidden path is not granted
//! itself; its other entries are granted one by one.

use std::path::{Path, PathBuf};

/// Lists the paths to grant so that `base` is covered, except for hidden paths. Symlinks are not followed: their
/// targets are granted only by their own location.
pub(super) fn grants(base: &Path, hidden: &[PathBuf]) -> Vec<PathBuf> {
    let mut granted = Vec::new();
    visit(base.to_owned(), hidden, &mut granted);
    granted
}

fn visit(path: PathBuf, hidden: &[PathBuf], granted: &mut Vec<PathBuf>) {
    if hidden.iter().any(|secret| path.starts_with(secret)) {
        return;
    }
    if !hidden.iter().any(|secret| secret.starts_with(&path)) {
        granted.push(path);
        return;
    }
    for entry in std::fs::read_dir(&path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
            visit(entry.path(), hidden, granted);
        }
    }
}

/// Returns the hidden paths that exist, both as named and with symlinks resolved.
pub(super) fn existing(hidden: &[PathBuf]) -> Vec<PathBuf> {
    let places = |path: &PathBuf| {
        let real = path.canonicalize().ok();
        let parent = path.parent().and_then(|parent| parent.canonicalize().ok());
        let own = parent.zip(path.file_name()).map(|(parent, name)| parent.join(name));
        real.into_iter().chain(own.filter(|own| own.symlink_metadata().is_ok()))
    };
    let mut found: Vec<_> = hidden.iter().flat_map(places).collect();
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(paths: &[&str]) -> tempfile::TempDir {
        let scratch = tempfile::tempdir().unwrap();
        for path in paths {
            std::fs::create_dir_all(scratch.path().join(path)).unwrap();
        }
        scratch
    }

    fn names(root: &Path, hidden: &[&str]) -> Vec<String> {
        let root = root.canonicalize().unwrap();
        let hidden = existing(&hidden.iter().map(|path| root.join(path)).collect::<Vec<_>>());
        let mut names: Vec<_> = grants(&root, &hidden)
            .iter()
            .map(|path| path.strip_prefix(&root).unwrap().display().to_string())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn directory_without_secrets_is_granted_itself() {
        let scratch = tree(&["a/b", "c"]);
        assert_eq!(names(scratch.path(), &["missing"]), [""]);
    }

    #[test]
    fn siblings_of_a_secret_are_granted() {
        let scratch = tree(&["home/.ssh", "home/work/src", "home/.config/gcloud", "home/.config/git", "etc"]);
        assert_eq!(
            names(scratch.path(), &["home/.ssh", "home/.config/gcloud"]),
            ["etc", "home/.config/git", "home/work"]
        );
    }

    #[test]
    fn symlinked_secret_hides_its_target() {
        let scratch = tree(&["home", "vault/keys", "vault/other"]);
        std::os::unix::fs::symlink(scratch.path().join("vault/keys"), scratch.path().join("home/.ssh"))
            .unwrap();
        std::os::unix::fs::symlink(scratch.path().join("vault/keys"), scratch.path().join("home/mine"))
            .unwrap();
        assert_eq!(names(scratch.path(), &["home/.ssh"]), ["vault/other"]);
    }
}
