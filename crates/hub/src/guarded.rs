//! The rights of a caller to which access rules apply, for functions of this process.

use std::fmt;
use std::sync::Weak;

use uuid::Uuid;

use crate::core::{Grant, Peer};

/// Prefix of the owner name for connections to which the rules assign none.
const CONNECTION: &str = "connection:";

/// Current connections and their rights.
pub(crate) trait Connections: Send + Sync {
    /// Returns `true` if a worker with this id is connected.
    fn is_connected(&self, worker: Uuid) -> bool;

    /// Returns `true` if a function may be called on behalf of a connection.
    fn may_use(&self, peer: Peer, function_id: &str) -> bool;
}

/// A connection to which access rules apply.
#[derive(Clone)]
pub struct Guarded {
    peer: Peer,
    owner: String,
    connections: Weak<dyn Connections>,
}

impl Guarded {
    pub(crate) fn new(
        peer: Peer,
        worker: Option<Uuid>,
        grant: &Grant,
        connections: Weak<dyn Connections>,
    ) -> Self {
        let of_connection = || format!("{CONNECTION}{}", worker.unwrap_or_default());
        Self { peer, owner: grant.owner.clone().unwrap_or_else(of_connection), connections }
    }

    /// Returns the name under which the connection owns what it registers: the `owner` that the auth function returned,
    /// else the prefix of its functions, else a name that is valid until the connection ends.
    #[must_use]
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// Returns `true` if the connection may change what `owner` registered: its own entries, or those of a connection
    /// that has ended.
    #[must_use]
    pub fn may_replace(&self, owner: &str) -> bool {
        let gone = |id| self.connections.upgrade().is_some_and(|connections| !connections.is_connected(id));
        let connection = owner.strip_prefix(CONNECTION).and_then(|id| Uuid::parse_str(id).ok());
        owner == self.owner || connection.is_some_and(gone)
    }

    /// Returns `true` if a function may be called on behalf of the connection.
    #[must_use]
    pub fn may_use(&self, function_id: &str) -> bool {
        self.connections.upgrade().is_some_and(|connections| connections.may_use(self.peer, function_id))
    }
}

impl PartialEq for Guarded {
    fn eq(&self, other: &Self) -> bool {
        (self.peer, &self.owner) == (other.peer, &other.owner)
    }
}

impl fmt::Debug for Guarded {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Guarded").field("owner", &self.owner).finish_non_exhaustive()
    }
}
