//! Walks the workspace as `git` sees it: ignored files are skipped.
//!
//! Directories are opened beneath the workspace one by one, so that a symlink created meanwhile leads nowhere.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use ignore::overrides::{Override, OverrideBuilder};
use rustix::fs::{AtFlags, Dir, FileType, OFlags, statat};

use super::ignored::{Rules, is_ignored};
use super::root::{Root, WorkspacePath};
use crate::Error;

/// Options of a walk.
pub(super) struct Walk<'a> {
    pub(super) root: &'a Root,
    /// A directory, or the one file to return.
    pub(super) start: PathBuf,
    /// Only files whose path matches.
    pub(super) glob: Option<&'a str>,
    /// Number of levels to descend; 1 is the directory alone.
    pub(super) depth: Option<usize>,
}

/// A file or directory, by its path in the workspace.
pub(super) struct Entry {
    pub(super) path: PathBuf,
    kind: FileType,
}

impl Entry {
    pub(super) fn is_dir(&self) -> bool {
        self.kind == FileType::Directory
    }

    pub(super) fn is_file(&self) -> bool {
        self.kind == FileType::RegularFile
    }
}

impl<'a> Walk<'a> {
    /// Returns the entries in name order; symlinks are returned but not followed.
    pub(super) fn entries(self) -> Result<Entries<'a>, Error> {
        let start = self.root.path().join(&self.start);
        let mut overrides = OverrideBuilder::new(start);
        let invalid = |error: ignore::Error| Error::Argument { argument: "glob", why: error.to_string() };
        if let Some(glob) = self.glob {
            overrides.add(glob).map_err(invalid)?;
        }
        let overrides = overrides.build().map_err(invalid)?;
        let max_depth = self.depth.unwrap_or(usize::MAX);
        let mut entries = Entries { root: self.root, overrides, max_depth, open: Vec::new() };
        match self.root.kind(&WorkspacePath::beneath(self.start.clone()))? {
            FileType::Directory => entries.open(&self.start),
            kind => {
                let pending = vec![Entry { path: self.start, kind }];
                entries.open.push(Level { pending, rules: None });
            }
        }
        Ok(entries)
    }
}

/// An ongoing walk.
pub(super) struct Entries<'a> {
    root: &'a Root,
    overrides: Override,
    max_depth: usize,
    open: Vec<Level>,
}

/// A directory with its remaining entries, in reverse order.
struct Level {
    pending: Vec<Entry>,
    /// `None` for the level of a file that was requested by its path, and is never ignored.
    rules: Option<Rules>,
}

impl Entries<'_> {
    /// Enters a directory; one that cannot be read has no entries.
    fn open(&mut self, dir: &Path) {
        let rules = Some(Rules::read(self.root, dir));
        let mut pending = list(self.root, dir).unwrap_or_default();
        pending.sort_by(|one, other| other.path.cmp(&one.path));
        self.open.push(Level { pending, rules });
    }

    fn is_skipped(&self, entry: &Entry) -> bool {
        if self.open.last().is_some_and(|level| level.rules.is_none()) {
            return false;
        }
        let path = self.root.path().join(&entry.path);
        let chosen = self.overrides.matched(&path, entry.is_dir());
        let rules = || self.open.iter().filter_map(|level| level.rules.as_ref());
        entry.path.file_name() == Some(OsStr::new(".git"))
            || chosen.is_ignore()
            || chosen.is_none() && is_ignored(rules(), &path, entry.is_dir())
    }
}

impl Iterator for Entries<'_> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        loop {
            let Some(entry) = self.open.last_mut()?.pending.pop() else {
                self.open.pop();
                continue;
            };
            if self.is_skipped(&entry) {
                continue;
            }
            if entry.is_dir() && self.open.len() < self.max_depth {
                self.open(&entry.path);
            }
            return Some(entry);
        }
    }
}

/// Lists a directory.
fn list(root: &Root, dir: &Path) -> Option<Vec<Entry>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let opened = root.open_at(&WorkspacePath::beneath(dir.to_owned()), flags).ok()?;
    let mut entries = Vec::new();
    for entry in Dir::read_from(&opened).ok()?.flatten() {
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        let kind = match entry.file_type() {
            // Some file systems do not report the type.
            FileType::Unknown => statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW)
                .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
            kind => kind,
        };
        entries.push(Entry { path: dir.join(name), kind });
    }
    Some(entries)
}
