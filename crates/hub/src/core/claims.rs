//! Ownership of function ids for connections under access rules.
//!
//! The rules assign ids to such a connection: by its prefix, or by the auth function's list. It may also claim other
//! ids for its own functions: ids that no rule exposes to it and that do not belong to another worker. Ownership of an
//! id outlives connections, because otherwise a guest would receive the calls of a worker that restarts. When a worker
//! with a stronger right registers a claimed id, the claim ends.

use std::collections::HashMap;

/// Maximum number of remembered ids. At the limit, guests cannot claim more.
const REMEMBERED: usize = 100_000;

/// Holder of an id, also while the id is not registered.
#[derive(Debug, PartialEq)]
enum Holder {
    /// A worker without access rules.
    Trusted,
    /// The guests of this owner.
    Owner(String),
}

/// Right of guests to claim an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claim {
    Denied,
    Held,
    /// The id has no holder.
    Free,
}

/// The known holders of ids.
#[derive(Debug, Default)]
pub(super) struct Claims {
    holders: HashMap<String, Holder>,
}

impl Claims {
    /// Returns the right of an owner's guests to an id. An owner can hold up to `limit` ids.
    pub(super) fn check(&self, id: &str, owner: Option<&str>, limit: usize) -> Claim {
        let is_own = |holder: &Holder| matches!(holder, Holder::Owner(name) if owner == Some(name));
        match self.holders.get(id) {
            Some(holder) if is_own(holder) => Claim::Held,
            None if self.holders.len() < REMEMBERED
                && (owner.is_none()
                    || self.holders.values().filter(|holder| is_own(holder)).count() < limit) =>
            {
                Claim::Free
            }
            Some(_) | None => Claim::Denied,
        }
    }

    /// Records the owner whose guests hold an id, unless it has a holder.
    pub(super) fn record(&mut self, id: &str, owner: String) {
        if self.holders.len() < REMEMBERED {
            self.holders.entry(id.to_owned()).or_insert(Holder::Owner(owner));
        }
    }

    /// Reserves an id for workers without access rules and for those to which the rules assign it.
    pub(super) fn reserve(&mut self, id: &str) {
        if self.is_held(id) || self.holders.len() < REMEMBERED {
            self.holders.insert(id.to_owned(), Holder::Trusted);
        }
    }

    pub(super) fn is_held(&self, id: &str) -> bool {
        self.holders.contains_key(id)
    }
}
