//! Connected workers.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;

use super::grant::Grant;
use crate::error::CallError;

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

#[derive(Debug)]
struct Worker {
    id: Uuid,
    token: Uuid,
    connection: NewConnection,
    info: WorkerInfo,
    /// Number of unanswered calls that the worker made.
    waiting: usize,
    /// Number of calls that the worker received and has not answered.
    running: usize,
    /// Maximum message size that the worker accepts.
    longest: usize,
}

/// A worker's description of itself.
#[derive(Debug, Default)]
struct WorkerInfo {
    name: Option<String>,
    runtime: Option<String>,
    version: Option<String>,
    os: Option<String>,
    pid: Option<u64>,
    isolation: Option<String>,
    description: Option<String>,
    namespace: Option<String>,
}

/// A change of the number of unanswered calls.
#[derive(Debug, Clone, Copy)]
pub(super) enum CallChange {
    Started,
    Ended,
}

impl Workers {
    pub(super) fn add(&mut self, connection: NewConnection, id: Uuid, token: Uuid, longest: usize) -> Peer {
        self.last += 1;
        let info = WorkerInfo::default();
        let worker = Worker { id, token, connection, info, waiting: 0, running: 0, longest };
        self.workers.insert(Peer(self.last), worker);
        Peer(self.last)
    }

    /// Removes a worker and returns its id.
    pub(super) fn remove(&mut self, peer: Peer) -> Option<Uuid> {
        self.workers.remove(&peer).map(|worker| worker.id)
    }

    pub(super) fn is_connected(&self, peer: Peer) -> bool {
        self.workers.contains_key(&peer)
    }

    pub(super) fn id(&self, peer: Peer) -> Option<Uuid> {
        self.workers.get(&peer).map(|worker| worker.id)
    }

    /// Returns the connection of the worker with this id.
    pub(super) fn find(&self, id: Uuid) -> Option<Peer> {
        self.workers.iter().find(|(_, worker)| worker.id == id).map(|(peer, _)| *peer)
    }

    /// Returns the previous connection of a worker that knows that connection's secret.
    pub(super) fn find_previous(&self, peer: Peer, id: &str, token: &str) -> Option<Peer> {
        let is_previous = |worker: &Worker| worker.id.to_string() == id && worker.token.to_string() == token;
        self.workers.iter().find(|(old, worker)| **old != peer && is_previous(worker)).map(|(old, _)| *old)
    }

    pub(super) fn name(&self, peer: Peer) -> Option<String> {
        self.workers.get(&peer).map(Worker::name)
    }

    /// Returns the name under which a connection is listed as an owner or provider.
    pub(super) fn listed_name(&self, peer: Peer) -> String {
        self.name(peer).unwrap_or_else(|| "engine".to_owned())
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

    /// Returns the number of unanswered calls that a worker made.
    pub(super) fn waiting(&self, peer: Peer) -> usize {
        self.workers.get(&peer).map_or(0, |worker| worker.waiting)
    }

    /// Returns the maximum message size that a worker accepts.
    pub(super) fn longest(&self, peer: Peer) -> usize {
        self.workers.get(&peer).map_or(usize::MAX, |worker| worker.longest)
    }

    /// Counts a call at the worker that made it, if any, and at the one that received it.
    pub(super) fn count_call(&mut self, caller: Option<Peer>, callee: Peer, change: CallChange) {
        if let Some(worker) = caller.and_then(|caller| self.workers.get_mut(&caller)) {
            change.apply(&mut worker.waiting);
        }
        if let Some(worker) = self.workers.get_mut(&callee) {
            change.apply(&mut worker.running);
        }
    }

    /// Stores the information that a worker sent about itself; returns the worker's id.
    pub(super) fn set_info(&mut self, peer: Peer, info: &Value) -> Option<Uuid> {
        let worker = self.workers.get_mut(&peer)?;
        worker.info = WorkerInfo::parse(info);
        // The WebSocket library of these SDKs accepts no more, and closes the connection otherwise.
        if worker.info.runtime.as_deref() == Some("python") && worker.info.is_before(0, 25) {
            worker.longest = worker.longest.min(1024 * 1024);
        }
        Some(worker.id)
    }

    /// Returns `true` if a worker's SDK predates the change of trigger listings to types.
    pub(super) fn is_before_types(&self, peer: Peer) -> bool {
        self.workers.get(&peer).is_some_and(|worker| worker.info.is_before(0, 13))
    }

    /// Lists the workers that match a query.
    pub(super) fn list<'a>(&self, query: &Value, functions: impl Fn(Peer) -> Vec<&'a str>) -> Value {
        let wanted = |name: &str| query.get(name).and_then(Value::as_str);
        let rows = self.workers.iter().map(|(peer, worker)| (worker, worker.row(&functions(*peer))));
        let rows = rows.filter(|(worker, row)| {
            wanted("worker_id").is_none_or(|id| id == worker.id.to_string())
                && wanted("runtime").is_none_or(|runtime| row["runtime"] == runtime)
                && wanted("status").is_none_or(|status| row["status"] == status)
                && wanted("search").is_none_or(|text| worker.name().contains(text))
        });
        let workers: Vec<Value> = rows.map(|(_, row)| row).collect();
        let timestamp = self.workers.values().map(Worker::connected_at).max().unwrap_or(0);
        json!({ "workers": workers, "timestamp": timestamp })
    }

    /// Describes the worker with this id or name.
    pub(super) fn describe<'a>(
        &self,
        id: &str,
        functions: impl Fn(Peer) -> Vec<&'a str>,
    ) -> Result<Value, CallError> {
        let mut workers = self.workers.iter();
        let found = workers.find(|(_, worker)| worker.id.to_string() == id || worker.name() == id);
        let row = found.map(|(peer, worker)| worker.row(&functions(*peer)));
        row.ok_or_else(|| CallError::new("NOT_FOUND", format!("Worker {id} not found")))
    }
}

impl CallChange {
    fn apply(self, count: &mut usize) {
        *count = match self {
            Self::Started => *count + 1,
            Self::Ended => count.saturating_sub(1),
        };
    }
}

impl Worker {
    fn name(&self) -> String {
        self.info.name.clone().unwrap_or_else(|| self.id.to_string())
    }

    fn connected_at(&self) -> u64 {
        u64::try_from(self.connection.at.as_millis()).unwrap_or(u64::MAX)
    }

    fn row(&self, functions: &[&str]) -> Value {
        let info = &self.info;
        json!({
            "id": self.id.to_string(),
            "name": self.name(),
            "runtime": info.runtime,
            "version": info.version,
            "os": info.os,
            "pid": info.pid,
            "isolation": info.isolation,
            "description": info.description,
            "namespace": info.namespace.as_deref().unwrap_or("default"),
            "ip_address": self.connection.address.map(|address| address.to_string()),
            "status": if self.running > 0 { "busy" } else { "available" },
            "connected_at_ms": self.connected_at(),
            "function_count": functions.len(),
            "functions": functions,
            "active_invocations": self.running,
            "latest_metrics": null,
        })
    }
}

impl WorkerInfo {
    fn parse(info: &Value) -> Self {
        let text = |name: &str| info.get(name).and_then(Value::as_str).map(str::to_owned);
        Self {
            name: text("name"),
            runtime: text("runtime"),
            version: text("version"),
            os: text("os"),
            pid: info.get("pid").and_then(Value::as_u64),
            isolation: text("isolation"),
            description: text("description"),
            namespace: text("namespace"),
        }
    }

    /// Returns `true` if the SDK version is known and older than this.
    fn is_before(&self, major: u64, minor: u64) -> bool {
        let Some(version) = &self.version else { return false };
        let mut parts = version.split(['.', '-']).map(|part| part.parse::<u64>().ok());
        match (parts.next().flatten(), parts.next().flatten()) {
            (Some(found_major), Some(found_minor)) => (found_major, found_minor) < (major, minor),
            _ => false,
        }
    }
}
