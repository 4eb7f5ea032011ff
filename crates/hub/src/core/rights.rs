//! Limits on what the hub does on behalf of a connection under access rules.
//!
//! Nothing may call a function on behalf of such a connection that the connection may not call itself: no trigger, no
//! observer, no queue. What the hub does for a connection runs with the rights of the hub, so hub functions are
//! available only to direct calls. Entries of another connection can be taken over only by the same owner.

use serde_json::Value;

use super::{Functions, Peer, Workers};

/// The tables that determine rights.
#[derive(Clone, Copy)]
pub(super) struct Rights<'a> {
    pub(super) workers: &'a Workers,
    pub(super) functions: &'a Functions,
}

impl Rights<'_> {
    /// Returns `true` if the hub may call a function on behalf of a connection.
    pub(super) fn may_use(self, peer: Peer, function_id: &str) -> bool {
        let Some(grant) = self.workers.grant(peer) else { return true };
        match self.functions.get(function_id) {
            Some((owner, _)) if owner == peer => true,
            Some((Peer::HUB, _)) => false,
            Some((_, spec)) => grant.may_call(function_id, spec.metadata.as_ref()),
            None => grant.may_call(function_id, None),
        }
    }

    /// Returns the first function of a trigger that may not be called on behalf of a connection.
    pub(super) fn denied_function(self, peer: Peer, function_id: &str, config: &str) -> Option<String> {
        self.workers.grant(peer)?;
        let config: Value = serde_json::from_str(config).unwrap_or_default();
        let condition = config.get("condition_function_id").and_then(Value::as_str);
        let used = [Some(function_id), condition];
        used.into_iter().flatten().find(|id| !self.may_use(peer, id)).map(str::to_owned)
    }

    /// Returns the full id of a function that a connection names: its own functions have a prefix that the connection
    /// does not know.
    pub(super) fn full_id(self, peer: Peer, id: &str) -> String {
        let registered = self.workers.grant(peer).map(|grant| grant.registered_id(id));
        registered.filter(|id| self.functions.is_of(peer, id)).unwrap_or_else(|| id.to_owned())
    }
}
