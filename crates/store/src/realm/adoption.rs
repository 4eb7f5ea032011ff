//! Moves a realm to another directory, whose path its id is derived from.

use std::fs;
use std::path::Path;

use meerkat_core::RealmId;

use super::inventory::refuse_in_use;
use super::{Force, Realm, RealmManifest, RealmOrigin, RealmPaths};
use crate::{Error, files, sqlite};

/// Reason to assume that a realm belonged to a directory before the directory was renamed; the last is the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kinship {
    /// The directories have the same name.
    Name,
    /// They are the same directory.
    Inode,
}

impl RealmManifest {
    /// Returns whether the realm may have belonged to a directory before that was renamed: its own directory no longer
    /// exists.
    #[must_use]
    pub fn kinship(&self, directory: &Path) -> Option<Kinship> {
        let former = Path::new(self.workspace.as_ref()?);
        if self.origin != RealmOrigin::Workspace || former.exists() {
            None
        } else if self.workspace_inode.is_some() && self.workspace_inode == files::inode(directory) {
            Some(Kinship::Inode)
        } else {
            (former.file_name() == directory.file_name()).then_some(Kinship::Name)
        }
    }
}

/// Renames a realm and makes it that of a directory. An unused realm with the new id is replaced.
///
/// # Errors
/// Returns an error if the realm does not exist or is in use, the other realm has sessions, config, or values, or a
/// file system operation fails.
pub fn adopt_realm(
    state_root: &Path,
    realm: &RealmId,
    new_id: &RealmId,
    directory: &Path,
) -> Result<(), Error> {
    let (from, to) = (RealmPaths::new(state_root, realm), RealmPaths::new(state_root, new_id));
    let not_found = || Error::RealmNotFound(realm.clone());
    if !from.exists()? {
        return Err(not_found());
    }
    // An earlier attempt may have ended after it wrote the manifest.
    let manifest = RealmManifest::find_any(&from, &[realm, new_id])?.ok_or_else(not_found)?;
    refuse_in_use(realm, &from.root, Force::No)?;
    if realm != new_id && to.exists()? {
        if !sqlite::is_unused(&to.database)? {
            return Err(Error::RealmExists(new_id.clone()));
        }
        Realm::delete(state_root, new_id, Force::No)?;
    }
    let adopted = RealmManifest {
        realm_id: new_id.clone(),
        origin: RealmOrigin::Workspace,
        workspace: Some(directory.to_string_lossy().into_owned()),
        workspace_inode: files::inode(directory),
        ..manifest
    };
    adopted.write(&from)?;
    fs::rename(&from.root, &to.root).map_err(|error| Error::io(&to.root, error))?;
    if let Err(error) = refuse_in_use(realm, &to.root, Force::No) {
        fs::rename(&to.root, &from.root).map_err(|error| Error::io(&from.root, error))?;
        manifest.write(&from)?;
        return Err(error);
    }
    let parent = to.root.parent().unwrap_or(state_root);
    files::sync_dir(parent).map_err(|error| Error::io(parent, error))
}
