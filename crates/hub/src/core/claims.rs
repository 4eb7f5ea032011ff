//! Ownership of function ids for connections under access rules.
//!
//! The rules assign ids to such a connection: by its prefix, or by the auth function's list. It may also claim other
//! ids for its own functions: ids that no rule exposes to it and that do not belong to another worker. Ownership of an
//! id outlives connections, because otherwise a guest would receive the calls of a worker that restarts. When a worker
//! with a stronger right registers a claimed id, the claim ends.

use std::collections::HashMap;

/// Maximum number of remembered ids. At the limit, guests cannot claim more.
const REMEMBERED: usize = 100_000;

/// The holders of ids, also while the ids are not registered.
#[derive(Debug, Default)]
pub(super) struct Claims {
    /// The owner whose guests hold the id; `None` for a worker without access rules.
    holders: HashMap<String, Option<String>>,
}

impl Claims {
    /// Returns the holder of an id, if it is known: the owner whose guests hold it, or `None` for a worker without access
    /// rules.
    pub(super) fn holder(&self, id: &str) -> Option<Option<&str>> {
        self.holders.get(id).map(Option::as_deref)
    }

    /// Returns `true` if an owner's guests can hold another id. An owner can hold up to `limit` ids.
    pub(super) fn has_room(&self, owner: Option<&str>, limit: usize) -> bool {
        let held = || self.holders.values().filter(|holder| holder.as_deref() == owner).count();
        self.holders.len() < REMEMBERED && (owner.is_none() || held() < limit)
    }

    /// Records the owner whose guests hold an id, unless its holder is known.
    pub(super) fn record(&mut self, id: &str, owner: String) {
        if self.holders.len() < REMEMBERED {
            self.holders.entry(id.to_owned()).or_insert(Some(owner));
        }
    }

    /// Reserves an id for workers without access rules and for those to which the rules assign it.
    pub(super) fn reserve(&mut self, id: &str) {
        if self.holders.contains_key(id) || self.holders.len() < REMEMBERED {
            self.holders.insert(id.to_owned(), None);
        }
    }
}
