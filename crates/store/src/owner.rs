//! Being alive in the sense of [`crate::liveness`]: an owner keeps its file locked.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use meerkat_core::{RealmId, Timestamp};
use serde::Serialize;
use uuid::Uuid;

use crate::liveness::is_locked;
use crate::{Error, files};

/// What the owner's file says, for people who look.
#[derive(Debug, Clone)]
pub(crate) struct OwnerRecord {
    /// The realm it opened.
    pub(crate) realm: RealmId,
    /// What it calls itself; `instance-<owner>` if nothing.
    pub(crate) instance: Option<String>,
    /// Which program it is.
    pub(crate) surface: String,
    /// When it opened the realm.
    pub(crate) started_at: Timestamp,
}

#[derive(Serialize)]
struct OwnerFile<'a> {
    realm_id: &'a RealmId,
    instance_id: &'a str,
    surface: &'a str,
    pid: u32,
    started_at: i64,
}

/// A living owner of leases. Dropping it gives up every lease it still holds.
#[derive(Debug)]
pub(crate) struct Owner {
    path: PathBuf,
    // Held for its lock alone.
    _lock: File,
}

impl Owner {
    /// Announces the owner `id` in the directory `leases`, which must exist.
    ///
    /// # Errors
    /// Fails when the file cannot be written or locked.
    pub(crate) fn claim(leases: &Path, id: Uuid, record: &OwnerRecord) -> Result<Self, Error> {
        let path = owner_path(leases, id);
        // The file gets its name only once it is locked, so that nobody can find it looking dead.
        let unnamed = leases.join(format!(".{id}.new"));
        let fault = |source| Error::io(&path, source);
        let mut lock = files::create_private(&unnamed).map_err(fault)?;
        let announced = lock
            .try_lock()
            .map_err(io::Error::from)
            .and_then(|()| lock.write_all(&encode(id, record)?))
            .and_then(|()| fs::rename(&unnamed, &path));
        if let Err(error) = announced {
            // A full disk has room for the name of a file that cannot be written.
            let _ = fs::remove_file(&unnamed);
            return Err(fault(error));
        }
        Ok(Self { path, _lock: lock })
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // The lock goes with the file handle in any case; a file left behind is found dead.
        let _ = fs::remove_file(&self.path);
    }
}

fn encode(id: Uuid, record: &OwnerRecord) -> io::Result<Vec<u8>> {
    let generated = format!("instance-{id}");
    let file = OwnerFile {
        realm_id: &record.realm,
        instance_id: record.instance.as_deref().unwrap_or(&generated),
        surface: &record.surface,
        pid: std::process::id(),
        started_at: record.started_at.as_second(),
    };
    Ok(serde_json::to_vec(&file)?)
}

fn owner_path(leases: &Path, id: Uuid) -> PathBuf {
    leases.join(format!("{id}.json"))
}

/// The owners of a realm, as one of them sees the others.
#[derive(Debug, Clone)]
pub(crate) struct Peers {
    pub(crate) me: Uuid,
    leases: PathBuf,
}

impl Peers {
    pub(crate) fn new(me: Uuid, leases: &Path) -> Self {
        Self { me, leases: leases.to_owned() }
    }

    /// Whether the owner lives.
    pub(crate) fn is_alive(&self, owner: Uuid) -> bool {
        // One's own file is never probed: on some systems that would fail for being locked, on others
        // succeed for being one's own.
        if owner == self.me {
            return true;
        }
        let path = owner_path(&self.leases, owner);
        let alive = is_locked(&path);
        if !alive {
            // Somebody else may have found it dead and removed it already.
            let _ = fs::remove_file(path);
        }
        alive
    }
}
