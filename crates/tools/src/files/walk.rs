//! Going through the workspace as `git` sees it: what is ignored is passed over.

use std::path::{Path, PathBuf};

use ignore::overrides::OverrideBuilder;
use ignore::{DirEntry, WalkBuilder};

use crate::Error;

/// What is gone through.
pub(super) struct Walk<'a> {
    /// Where to begin: a folder or a file in the workspace, by its real path.
    pub(super) start: &'a Path,
    /// Only files whose path fits.
    pub(super) glob: Option<&'a str>,
    /// How many folders deep.
    pub(super) depth: Option<usize>,
}

impl Walk<'_> {
    /// Lists what is there in the order of its names; links are listed and not followed.
    pub(super) fn entries(&self) -> Result<impl Iterator<Item = DirEntry> + use<>, Error> {
        let mut builder = WalkBuilder::new(self.start);
        builder.hidden(false).parents(false).git_global(false).require_git(false).max_depth(self.depth);
        builder.filter_entry(|entry| entry.file_name() != ".git");
        builder.sort_by_file_name(std::cmp::Ord::cmp);
        if let Some(glob) = self.glob {
            let mut overrides = OverrideBuilder::new(self.start);
            let bad = |error: ignore::Error| Error::Argument { argument: "glob", why: error.to_string() };
            overrides.add(glob).map_err(bad)?;
            let bad = |error: ignore::Error| Error::Argument { argument: "glob", why: error.to_string() };
            builder.overrides(overrides.build().map_err(bad)?);
        }
        Ok(builder.build().filter_map(Result::ok))
    }
}

/// Returns an entry's path in the workspace.
pub(super) fn inside(root: &Path, entry: &DirEntry) -> Option<PathBuf> {
    entry.path().strip_prefix(root).ok().map(Path::to_owned)
}
