//! Limits on what the hub does on behalf of a connection under access rules.
//!
//! Nothing may call a function on behalf of such a connection that the connection may not call itself: no trigger, no
//! observer, no queue. What the hub does for a connection runs with the rights of the hub, so hub functions are
//! available only to direct calls. Entries of another connection can be taken over only by the same owner.

use serde_json::Value;
use uuid::Uuid;

use super::{Core, Function, Peer};

impl Core {
    /// Returns `true` if the hub may call a function on behalf of a connection.
    pub(crate) fn may_use(&self, peer: Peer, function_id: &str) -> bool {
        let Some(grant) = self.grant(peer) else { return true };
        match self.functions.get(function_id).and_then(Function::owner) {
            Some((owner, _)) if owner == peer => true,
            Some((Peer::HUB, _)) => false,
            Some((_, spec)) => grant.may_call(function_id, spec.metadata.as_ref()),
            None => grant.may_call(function_id, None),
        }
    }

    /// Returns the first function of a trigger that may not be called on behalf of a connection.
    pub(super) fn denied_function(&self, peer: Peer, function_id: &str, config: &str) -> Option<String> {
        self.grant(peer)?;
        let config: Value = serde_json::from_str(config).unwrap_or_default();
        let condition = config.get("condition_function_id").and_then(Value::as_str);
        let used = [Some(function_id), condition];
        used.into_iter().flatten().find(|id| !self.may_use(peer, id)).map(str::to_owned)
    }

    /// Returns the full id of a function that a connection names: its own functions have a prefix that the connection
    /// does not know.
    pub(super) fn full_id(&self, peer: Peer, id: &str) -> String {
        let registered = self.grant(peer).map(|grant| grant.registered_id(id));
        let own = |id: &String| self.workers.get(&peer).is_some_and(|worker| worker.functions.contains(id));
        registered.filter(own).unwrap_or_else(|| id.to_owned())
    }

    /// Returns `true` if a connection may take over another one's entries, as a reconnected worker does. A connection
    /// under access rules without an owner can take over only its own entries.
    pub(super) fn may_take_over(&self, peer: Peer, from: Peer) -> bool {
        self.grant(peer).is_none() || self.is_same_owner(peer, from)
    }

    /// Returns `true` if two connections under access rules are known to belong to the same owner.
    pub(super) fn is_same_owner(&self, one: Peer, other: Peer) -> bool {
        let owner = |peer| self.grant(peer).and_then(|grant| grant.owner.clone());
        one == other || owner(one).is_some_and(|known| owner(other) == Some(known))
    }

    /// Returns `true` if any connection is under access rules.
    pub(super) fn has_guarded(&self) -> bool {
        self.workers.values().any(|worker| worker.grant.is_some())
    }

    /// Returns `true` if a worker with this id is connected.
    pub(crate) fn is_connected(&self, id: Uuid) -> bool {
        self.workers.values().any(|worker| worker.id == id)
    }
}
