//! Ownership of function ids for connections under access rules.
//!
//! The rules assign ids to such a connection: by its prefix, or by the auth function's list. It may also claim other
//! ids for its own functions: ids that no rule exposes to it and that do not belong to another worker. Ownership of an
//! id outlives connections, because otherwise a guest would receive the calls of a worker that restarts. When a worker
//! with a stronger right registers a claimed id, the claim ends.

use std::collections::HashMap;

use super::{Peer, Rights};

/// Maximum number of remembered ids. At the limit, guests cannot claim more.
const REMEMBERED: usize = 100_000;

/// The holders of ids, also while the ids are not registered.
#[derive(Debug, Default)]
pub(super) struct Claims {
    /// The owner whose guests hold the id; `None` for a worker without access rules.
    holders: HashMap<String, Option<String>>,
}

impl Claims {
    /// Returns `true` if the holder of an id is known.
    pub(super) fn is_held(&self, id: &str) -> bool {
        self.holders.contains_key(id)
    }

    /// Returns `true` if a connection under access rules may claim an id: it is not known to belong to another worker, no
    /// other guest has a prefix of it, and it is not used by others; `users` are the owners of the triggers and observers
    /// that call it. An owner can hold up to `limit` ids.
    pub(super) fn may_claim(
        &self,
        rights: Rights<'_>,
        peer: Peer,
        id: &str,
        users: impl Iterator<Item = Peer>,
        limit: usize,
    ) -> bool {
        let Rights { workers, functions } = rights;
        let is_foreign = |other: Peer| !workers.is_same_owner(peer, other);
        if functions.owners(id).any(|owner| owner == peer) {
            return true;
        }
        if functions.owners(id).any(is_foreign) {
            return false;
        }
        let owner = workers.grant(peer).and_then(|grant| grant.owner.as_ref());
        if let Some(holder) = self.holders.get(id) {
            return holder.is_some() && holder.as_ref() == owner;
        }
        let held = || self.holders.values().filter(|holder| holder.as_ref() == owner).count();
        self.holders.len() < REMEMBERED
            && (owner.is_none() || held() < limit)
            && !workers.with_prefix_of(id).chain(users).any(is_foreign)
    }

    /// Records the owner whose guests hold an id, unless its holder is known.
    pub(super) fn record(&mut self, id: &str, owner: String) {
        if self.holders.len() < REMEMBERED {
            self.holders.entry(id.to_owned()).or_insert(Some(owner));
        }
    }

    /// Reserves an id for workers without access rules and for those to which the rules assign it.
    pub(super) fn reserve(&mut self, id: &str) {
        if self.is_held(id) || self.holders.len() < REMEMBERED {
            self.holders.insert(id.to_owned(), None);
        }
    }
}
