//! Connected workers.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;

use super::Grant;

/// A connection; [`Peer::HUB`] is this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Peer(pub(crate) u64);

impl Peer {
    pub(crate) const HUB: Self = Self(0);
}

/// A new connection.
#[derive(Debug, Default)]
pub(crate) struct NewConnection {
    pub(crate) address: Option<IpAddr>,
    /// Connection time in milliseconds since 1970.
    pub(crate) at: Duration,
    /// Rights of the connection; `None` means no restrictions.
    pub(crate) grant: Option<Arc<Grant>>,
}

/// The connected workers.
#[derive(Debug, Default)]
pub(super) struct Workers {
    workers: BTreeMap<Peer, Worker>,
    last: u64,
}

/// A connected worker.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) id: Uuid,
    token: Uuid,
    connection: NewConnection,
    /// The worker's description of itself.
    info: Value,
    /// Number of unanswered calls that the worker made.
    pub(super) waiting: usize,
    /// Number of calls that the worker received and has not answered.
    running: usize,
    /// Maximum message size that the worker accepts.
    pub(super) longest: usize,
}

/// Texts in a worker's description of itself.
const INFO: [&str; 7] = ["name", "runtime", "version", "os", "isolation", "description", "namespace"];

impl Workers {
    pub(super) fn add(&mut self, connection: NewConnection, id: Uuid, token: Uuid, longest: usize) -> Peer {
        self.last += 1;
        let info = Value::Null;
        let worker = Worker { id, token, connection, info, waiting: 0, running: 0, longest };
        self.workers.insert(Peer(self.last), worker);
        Peer(self.last)
    }

    /// Removes a worker and returns its id.
    pub(super) fn remove(&mut self, peer: Peer) -> Option<Uuid> {
        self.workers.remove(&peer).map(|worker| worker.id)
    }

    pub(super) fn get(&self, peer: Peer) -> Option<&Worker> {
        self.workers.get(&peer)
    }

    /// Returns the worker with this id.
    pub(super) fn find(&self, id: Uuid) -> Option<&Worker> {
        self.workers.values().find(|worker| worker.id == id)
    }

    /// Returns the previous connection of a worker that knows that connection's secret.
    pub(super) fn find_previous(&self, peer: Peer, id: &str, token: &str) -> Option<Peer> {
        let is_previous = |worker: &Worker| worker.id.to_string() == id && worker.token.to_string() == token;
        self.workers.iter().find(|(old, worker)| **old != peer && is_previous(worker)).map(|(old, _)| *old)
    }

    /// Returns the name under which a connection is listed as an owner or provider.
    pub(super) fn listed_name(&self, peer: Peer) -> String {
        self.get(peer).map_or_else(|| "engine".to_owned(), Worker::name)
    }

    /// Returns the rights of a connection; `None` means no restrictions.
    pub(super) fn grant(&self, peer: Peer) -> Option<&Arc<Grant>> {
        self.workers.get(&peer).and_then(|worker| worker.connection.grant.as_ref())
    }

    /// Returns `true` if any connection is under access rules.
    pub(super) fn has_guarded(&self) -> bool {
        self.workers.values().any(|worker| worker.connection.grant.is_some())
    }

    /// Returns the connections to whose prefix an id belongs.
    pub(super) fn with_prefix_of(&self, id: &str) -> impl Iterator<Item = Peer> {
        let prefix = |peer| self.grant(peer).and_then(|grant| grant.prefix.as_deref());
        self.workers.keys().copied().filter(move |peer| prefix(*peer).is_some_and(|own| id.starts_with(own)))
    }

    /// Returns `true` if a connection may take over another one's entries, as a reconnected worker does. A connection
    /// under access rules without an owner can take over only its own entries.
    pub(super) fn may_take_over(&self, peer: Peer, from: Peer) -> bool {
        self.grant(peer).is_none() || self.is_same_owner(peer, from)
    }

    /// Returns `true` if two connections under access rules are known to belong to the same owner.
    pub(super) fn is_same_owner(&self, one: Peer, other: Peer) -> bool {
        let owner = |peer| self.grant(peer).and_then(|grant| grant.owner.as_ref());
        one == other || owner(one).is_some_and(|known| owner(other) == Some(known))
    }

    /// Changes the numbers of unanswered calls of the worker that made a call, if any, and of the one that received it.
    pub(super) fn count_call(&mut self, caller: Option<Peer>, callee: Peer, change: isize) {
        if let Some(worker) = caller.and_then(|caller| self.workers.get_mut(&caller)) {
            worker.waiting = worker.waiting.saturating_add_signed(change);
        }
        if let Some(worker) = self.workers.get_mut(&callee) {
            worker.running = worker.running.saturating_add_signed(change);
        }
    }

    /// Stores the information that a worker sent about itself; returns the worker's id.
    pub(super) fn set_info(&mut self, peer: Peer, info: &Value) -> Option<Uuid> {
        let worker = self.workers.get_mut(&peer)?;
        let texts = INFO.map(|name| (name, info.get(name).filter(|value| value.is_string())));
        let known = texts.into_iter().chain([("pid", info.get("pid").filter(|pid| pid.is_u64()))]);
        worker.info = known.filter_map(|(name, value)| Some((name.to_owned(), value?.clone()))).collect();
        // The WebSocket library of these SDKs accepts no more, and closes the connection otherwise.
        if worker.info["runtime"] == "python" && worker.is_before(0, 25) {
            worker.longest = worker.longest.min(1024 * 1024);
        }
        Some(worker.id)
    }

    /// Describes the workers, in rows with the fields of all SDK versions: each SDK reads those that it knows.
    pub(super) fn rows<'a>(&self, functions: impl Fn(Peer) -> Vec<&'a str>) -> Vec<Value> {
        self.workers.iter().map(|(peer, worker)| worker.row(&functions(*peer))).collect()
    }
}

impl Worker {
    pub(super) fn name(&self) -> String {
        self.info["name"].as_str().map_or_else(|| self.id.to_string(), str::to_owned)
    }

    /// Returns `true` if the version of the worker's SDK is known and older than this.
    pub(super) fn is_before(&self, major: u64, minor: u64) -> bool {
        let version = self.info["version"].as_str().unwrap_or_default();
        let mut parts = version.split(['.', '-']).map(|part| part.parse::<u64>().ok());
        match (parts.next().flatten(), parts.next().flatten()) {
            (Some(found_major), Some(found_minor)) => (found_major, found_minor) < (major, minor),
            _ => false,
        }
    }

    fn row(&self, functions: &[&str]) -> Value {
        let info = &self.info;
        json!({
            "id": self.id.to_string(),
            "name": self.name(),
            "runtime": info["runtime"],
            "version": info["version"],
            "os": info["os"],
            "pid": info["pid"],
            "isolation": info["isolation"],
            "description": info["description"],
            "namespace": info["namespace"].as_str().unwrap_or("default"),
            "ip_address": self.connection.address.map(|address| address.to_string()),
            "status": if self.running > 0 { "busy" } else { "available" },
            "connected_at_ms": u64::try_from(self.connection.at.as_millis()).unwrap_or(u64::MAX),
            "function_count": functions.len(),
            "functions": functions,
            "active_invocations": self.running,
            "latest_metrics": null,
        })
    }
}
