//! Which functions a connection under access rules may register.
//!
//! The rules give such a connection ids: by its prefix, or by what its auth function lists. It may also claim an id
//! that they do not give it, for a function of its own: one that no rule opens to it and that is not another worker's.
//! Whose an id is outlasts connections, because otherwise a guest would get the calls of a worker that restarts. When
//! a worker with a better right registers a claimed id, the claim ends.

use serde_json::Value;

use super::{Core, Peer};

/// How many ids are remembered. When there is no room, guests can claim no more.
const REMEMBERED: usize = 100_000;

/// Whose an id is, also while it is not registered.
#[derive(Debug, PartialEq)]
pub(super) enum Holder {
    /// A worker without access rules.
    Trusted,
    /// The guests of this owner.
    Owner(String),
}

impl Core {
    /// Returns true if a connection may register a function; `metadata` is what the connection says of it.
    pub(super) fn may_register(&self, peer: Peer, id: &str, metadata: Option<&Value>) -> bool {
        let Some(grant) = self.grant(peer) else { return true };
        let may_claim = || !grant.opens(id, metadata) && self.may_claim(peer, id);
        grant.may_register(id) && (grant.gives(id) || may_claim())
    }

    /// Returns true if an id is not another worker's, as far as the hub knows.
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

    /// Returns true if the id has the prefix of another guest, or if another worker has it called.
    fn is_expected(&self, id: &str, is_foreign: &dyn Fn(Peer) -> bool) -> bool {
        let mut prefixed = self.workers.iter().filter_map(|(other, worker)| {
            worker.grant.as_ref().and_then(|grant| grant.prefix.as_deref()).map(|prefix| (*other, prefix))
        });
        prefixed.any(|(other, prefix)| id.starts_with(prefix) && is_foreign(other))
            || self.triggers.values().any(|known| known.function_id == id && is_foreign(known.owner))
            || self.observers.values().any(|known| known.target == id && is_foreign(known.owner))
    }

    /// Remembers whose an id is that a connection registers, and ends the claims of those with less right to it.
    pub(super) fn hold(&mut self, peer: Peer, id: &str) {
        let Some(grant) = self.grant(peer) else { return self.reserve(id) };
        if let Some(owner) = grant.owner.clone()
            && self.holders.len() < REMEMBERED
        {
            self.holders.entry(id.to_owned()).or_insert(Holder::Owner(owner));
        }
        if grant.gives(id) {
            self.end_claims(peer, id);
        }
    }

    /// Keeps an id for workers without access rules and for those that the rules give it.
    pub(crate) fn reserve(&mut self, id: &str) {
        if self.holders.contains_key(id) || self.holders.len() < REMEMBERED {
            self.holders.insert(id.to_owned(), Holder::Trusted);
        }
        self.end_claims(Peer::HUB, id);
    }

    /// Keeps an id for which a call waits, unless it is known whose the id is.
    pub(crate) fn reserve_unknown(&mut self, id: &str) {
        if !self.is_registered(id) && !self.holders.contains_key(id) {
            self.reserve(id);
        }
    }

    fn end_claims(&mut self, peer: Peer, id: &str) {
        let registered = self.functions.get(id).map(|function| function.registrations.as_slice());
        let is_claim = |other: Peer| self.grant(other).is_some_and(|grant| !grant.gives(id));
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
