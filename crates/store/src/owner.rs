//! Owners, which are alive in the sense of [`crate::liveness`] while their file is locked.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use meerkat_core::{RealmId, Timestamp};
use serde_json::json;
use uuid::Uuid;

use crate::Error;
use crate::dirs::create_private;
use crate::liveness::is_locked;

/// Content of the owner's file, for diagnostics.
#[derive(Debug, Clone)]
pub(crate) struct OwnerRecord {
    /// The opened realm.
    pub(crate) realm: RealmId,
    /// Name of the process; `instance-<owner>` if `None`.
    pub(crate) instance: Option<String>,
    /// The surface it runs.
    pub(crate) surface: String,
    /// The time it opened the realm.
    pub(crate) started_at: Timestamp,
}

/// A live owner of leases. Dropping it releases every lease it still holds.
#[derive(Debug)]
pub(crate) struct Owner {
    path: PathBuf,
    // Held only for its lock.
    _lock: File,
}

impl Owner {
    /// Registers the owner `id` in the directory `leases`, which must exist.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written or locked.
    pub(crate) fn claim(leases: &Path, id: Uuid, record: &OwnerRecord) -> Result<Self, Error> {
        let path = owner_path(leases, id);
        // The file gets its name only once it is locked, so that the owner never appears dead.
        let unnamed = leases.join(format!(".{id}.new"));
        let to_error = |source| Error::io(&path, source);
        let mut lock = create_private(&unnamed).map_err(to_error)?;
        let written = lock
            .try_lock()
            .map_err(io::Error::from)
            .and_then(|()| lock.write_all(&encode(id, record)))
            .and_then(|()| fs::rename(&unnamed, &path));
        if let Err(error) = written {
            // On a full disk, the file may exist although its content could not be written.
            let _ = fs::remove_file(&unnamed);
            return Err(to_error(error));
        }
        Ok(Self { path, _lock: lock })
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // Closing the file releases the lock in any case; a leftover file is detected as dead.
        let _ = fs::remove_file(&self.path);
    }
}

fn encode(id: Uuid, record: &OwnerRecord) -> Vec<u8> {
    let OwnerRecord { realm, instance, surface, started_at } = record;
    let instance = instance.clone().unwrap_or_else(|| format!("instance-{id}"));
    let file = json!({
        "realm_id": realm,
        "instance_id": instance,
        "surface": surface,
        "pid": std::process::id(),
        "started_at": started_at.as_second(),
    });
    file.to_string().into_bytes()
}

fn owner_path(leases: &Path, id: Uuid) -> PathBuf {
    leases.join(format!("{id}.json"))
}

/// The owners of a realm, as seen by one of them.
#[derive(Debug, Clone)]
pub(crate) struct Peers {
    pub(crate) me: Uuid,
    leases: PathBuf,
}

impl Peers {
    pub(crate) fn new(me: Uuid, leases: &Path) -> Self {
        Self { me, leases: leases.to_owned() }
    }

    /// Returns `true` if the owner is alive.
    pub(crate) fn is_alive(&self, owner: Uuid) -> bool {
        // A process never probes its own file: some systems report it as locked, and others do not.
        if owner == self.me {
            return true;
        }
        let path = owner_path(&self.leases, owner);
        let alive = is_locked(&path);
        if !alive {
            // Another process may have removed it already.
            let _ = fs::remove_file(path);
        }
        alive
    }
}
