//! Ownership of function ids for connections under access rules.
//!
//! The rules assign ids to such a connection: by its prefix, or by the auth function's list. It may also claim other
//! ids for its own functions: ids that no rule exposes to it and that do not belong to another worker. Ownership of an
//! id outlives connections, because otherwise a guest would receive the calls of a worker that restarts. When a worker
//! with a stronger right registers a claimed id, the claim ends.

use serde_json::Value;

use super::{Core, Peer};

/// Maximum number of remembered ids. At the limit, guests cannot claim more.
const REMEMBERED: usize = 100_000;

/// Holder of an id, also while the id is not registered.
#[derive(Debug, PartialEq)]
pub(super) enum Holder {
    /// A worker without access rules.
    Trusted,
    /// The guests of this owner.
    Owner(String),
}

impl Core {
    /// Returns `true` if a connection may register a function; `metadata` is the metadata that the connection
    /// sent for it.
    pub(super) fn may_register(&self, peer: Peer, id: &str, metadata: Option<&Value>) -> bool {
        let Some(grant) = self.grant(peer) else { return true };
        let may_claim = || !grant.exposes(id, metadata) && self.may_claim(peer, id);
        grant.may_register(id) && (grant.assigns(id) || may_claim())
    }

    /// Returns `true` if an id is not known to belong to another worker.
    fn may_claim(&self, peer: Peer, id: &str) -> bool {
        let is_foreign = |other: Peer| !self.is_same_owner(peer, other);
        let registered = self.functions.get(id).map(|function| function.registrations.as_slice());
        let registered = registered.unwrap_or_default();
        if registered.iter().any(|(other, _)| *other == peer) {
            return true;
        }
        if registered.iter().any(|(other, _)| is_foreign(*other)) {
            return false;
        }
        let owner = self.grant(peer).and_then(|grant| grant.owner.clone());
        match self.holders.get(id) {
            Some(Holder::Trusted) => false,
            Some(Holder::Owner(name)) => owner.as_ref() == Some(name),
            None => self.has_room(owner) && !self.is_expected(id, &is_foreign),
        }
    }

    fn has_room(&self, owner: Option<String>) -> bool {
        let own = owner.map(Holder::Owner);
        let held = || self.holders.values().filter(|holder| Some(*holder) == own.as_ref()).count();
        self.holders.len() < REMEMBERED && (own.is_none() || held() < self.limits.functions)
    }

    /// Returns `true` if the id has the prefix of another guest, or if another worker's triggers or calls use it.
    fn is_expected(&self, id: &str, is_foreign: &dyn Fn(Peer) -> bool) -> bool {
        let mut prefixed = self.workers.iter().filter_map(|(other, worker)| {
            worker.grant.as_ref().and_then(|grant| grant.prefix.as_deref()).map(|prefix| (*other, prefix))
        });
        prefixed.any(|(other, prefix)| id.starts_with(prefix) && is_foreign(other))
            || self.triggers.values().any(|known| known.function_id == id && is_foreign(known.owner))
            || self.observers.values().any(|known| known.target == id && is_foreign(known.owner))
    }

    /// Records the holder of an id that a connection registers, and ends claims with a weaker right to it.
    pub(super) fn record_holder(&mut self, peer: Peer, id: &str) {
        let Some(grant) = self.grant(peer) else { return self.reserve(id) };
        if let Some(owner) = grant.owner.clone()
            && self.holders.len() < REMEMBERED
        {
            self.holders.entry(id.to_owned()).or_insert(Holder::Owner(owner));
        }
        if grant.assigns(id) {
            self.end_claims(peer, id);
        }
    }

    /// Reserves an id for workers without access rules and for those to which the rules assign it.
    pub(crate) fn reserve(&mut self, id: &str) {
        if self.holders.contains_key(id) || self.holders.len() < REMEMBERED {
            self.holders.insert(id.to_owned(), Holder::Trusted);
        }
        self.end_claims(Peer::HUB, id);
    }

    /// Reserves an id for which a call waits, unless its holder is known.
    pub(crate) fn reserve_unknown(&mut self, id: &str) {
        if !self.is_registered(id) && !self.holders.contains_key(id) {
            self.reserve(id);
        }
    }

    fn end_claims(&mut self, peer: Peer, id: &str) {
        let registered = self.functions.get(id).map(|function| function.registrations.as_slice());
        let is_claim = |other: Peer| self.grant(other).is_some_and(|grant| !grant.assigns(id));
        let others = registered.unwrap_or_default().iter().map(|(other, _)| *other);
        let ended: Vec<Peer> =
            others.filter(|other| is_claim(*other) && !self.is_same_owner(peer, *other)).collect();
        for other in ended {
            if let Some(worker) = self.workers.get_mut(&other) {
                worker.functions.remove(id);
            }
            self.drop_function(other, id);
            self.note(other, &format!("`{id}` is no longer registered: it belongs to another worker"));
            self.reject(other, id);
        }
    }
}
