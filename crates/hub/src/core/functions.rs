//! Functions and their owners.
//!
//! A function id may be registered by several connections. The newest receives the calls, because an SDK that
//! reconnects before its old connection is known to be dead must get its calls back, and most SDKs never learn of a
//! rejection. When the newest is removed, the previous one becomes active again. Functions of this process cannot be
//! taken over. A connection under access rules takes over only from the same owner; if the rules assign it an id that
//! others also registered, it receives the calls only once all others are gone.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Peer, Workers};
use crate::error::CallError;

/// Maximum number of functions described in one call.
const MAX_DESCRIBED: usize = 32;

/// Description of a function.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct FunctionSpec {
    pub(crate) description: Option<String>,
    pub(crate) request_format: Option<Value>,
    pub(crate) response_format: Option<Value>,
    pub(crate) metadata: Option<Value>,
    /// If true, the function is behind a URL, which the hub does not call.
    pub(crate) remote: bool,
}

/// The functions of this process and of the workers.
#[derive(Debug, Default)]
pub(super) struct Functions {
    /// The registrations of each id, the newest last; never empty.
    registrations: BTreeMap<String, Vec<(Peer, FunctionSpec)>>,
    /// The ids that each worker registered.
    registered: BTreeMap<Peer, BTreeSet<String>>,
}

impl Functions {
    /// Registers a function of this process.
    pub(super) fn provide(&mut self, id: &str, spec: FunctionSpec) {
        self.registrations.insert(id.to_owned(), vec![(Peer::HUB, spec)]);
    }

    /// Registers a function of a worker. Returns the number of registrations of its id, or `None` for a repetition,
    /// which changes nothing.
    pub(super) fn register(
        &mut self,
        workers: &Workers,
        peer: Peer,
        id: &str,
        spec: FunctionSpec,
    ) -> Option<usize> {
        let all = self.registrations.entry(id.to_owned()).or_default();
        let receives = all.last().is_none_or(|(owner, _)| workers.may_take_over(peer, *owner));
        match all.iter_mut().find(|(owner, _)| *owner == peer) {
            // Older SDKs send every registration twice. A repetition does not change the order.
            Some((_, known)) if *known == spec => return None,
            Some((_, known)) => *known = spec,
            None if receives => all.push((peer, spec)),
            None => all.insert(0, (peer, spec)),
        }
        self.registered.entry(peer).or_default().insert(id.to_owned());
        Some(all.len())
    }

    /// Removes a connection's registration of the id, and no other. Returns the number of those that remain, or `None`
    /// if there was none.
    pub(super) fn unregister(&mut self, peer: Peer, id: &str) -> Option<usize> {
        let ids = self.registered.get_mut(&peer)?;
        if !ids.remove(id) {
            return None;
        }
        if ids.is_empty() {
            self.registered.remove(&peer);
        }
        let all = self.registrations.get_mut(id)?;
        all.retain(|(owner, _)| *owner != peer);
        let left = all.len();
        if left == 0 {
            self.registrations.remove(id);
        }
        Some(left)
    }

    /// Returns the ids that a worker registered.
    pub(super) fn of(&self, peer: Peer) -> Vec<&str> {
        self.registered.get(&peer).into_iter().flatten().map(String::as_str).collect()
    }

    /// Returns `true` if a worker registered the id.
    pub(super) fn is_of(&self, peer: Peer, id: &str) -> bool {
        self.registered.get(&peer).is_some_and(|ids| ids.contains(id))
    }

    /// Returns the number of ids that a worker registered.
    pub(super) fn count(&self, peer: Peer) -> usize {
        self.registered.get(&peer).map_or(0, BTreeSet::len)
    }

    /// Returns the connections that registered the id, the newest last.
    pub(super) fn owners(&self, id: &str) -> impl DoubleEndedIterator<Item = Peer> {
        self.registrations.get(id).into_iter().flatten().map(|(peer, _)| *peer)
    }

    /// Returns the connection that receives the calls, and its description of the function.
    pub(super) fn get(&self, id: &str) -> Option<(Peer, &FunctionSpec)> {
        self.registrations.get(id)?.last().map(|(peer, spec)| (*peer, spec))
    }

    pub(super) fn owner(&self, id: &str) -> Option<Peer> {
        self.get(id).map(|(peer, _)| peer)
    }

    /// Returns `true` if this connection registered the function but another one receives its calls.
    pub(super) fn is_superseded(&self, peer: Peer, id: &str) -> bool {
        self.owners(id).any(|owner| owner == peer) && self.owner(id) != Some(peer)
    }

    /// Lists the functions that match a query and that the connection may see.
    pub(super) fn list(&self, workers: &Workers, from: Peer, query: &Value) -> Value {
        let internal = query.get("include_internal").and_then(Value::as_bool).unwrap_or_default();
        let text = |name: &str| query.get(name).and_then(Value::as_str);
        let wanted: Option<Vec<&str>> = match (text("worker"), query.get("workers").and_then(Value::as_array))
        {
            (Some(one), _) => Some(vec![one]),
            (None, Some(several)) if !several.is_empty() => {
                Some(several.iter().filter_map(Value::as_str).collect())
            }
            _ => None,
        };
        let rows = self.registrations.iter().filter_map(|(id, all)| {
            let (owner, spec) = all.last()?;
            let name = workers.listed_name(*owner);
            let visible = (internal || !id.starts_with("engine::"))
                && may_see(workers, from, id, spec)
                && text("prefix").is_none_or(|prefix| id.starts_with(prefix))
                && wanted.as_ref().is_none_or(|wanted| wanted.contains(&name.as_str()))
                && text("search").is_none_or(|word| {
                    id.contains(word) || spec.description.as_ref().is_some_and(|text| text.contains(word))
                });
            visible.then(|| spec.row(id, &name))
        });
        json!({ "functions": rows.collect::<Vec<Value>>() })
    }

    /// Describes one function or several. `triggers` returns those of a function.
    pub(super) fn describe(
        &self,
        workers: &Workers,
        from: Peer,
        query: &Value,
        triggers: impl Fn(&str) -> Value,
    ) -> Result<Value, CallError> {
        let describe = |id: &str| {
            let (owner, spec) = self.get(id).ok_or("not_found")?;
            let info = || spec.info(id, &workers.listed_name(owner), &triggers(id));
            may_see(workers, from, id, spec).then(info).ok_or("forbidden")
        };
        if let Some(id) = query.get("function_id").and_then(Value::as_str) {
            return describe(id).map_err(|error| match error {
                "forbidden" => CallError::forbidden(id),
                _ => CallError::new("NOT_FOUND", format!("Function {id} not found")),
            });
        }
        let ids = query.get("function_ids").and_then(Value::as_array);
        let ids = ids
            .filter(|ids| ids.len() <= MAX_DESCRIBED && ids.iter().all(Value::is_string))
            .ok_or_else(|| {
                let text = format!("give function_id, or function_ids with up to {MAX_DESCRIBED} ids");
                CallError::new("INVALID_ARGUMENTS", text)
            })?;
        let infos = ids
            .iter()
            .filter_map(Value::as_str)
            .map(|id| describe(id).unwrap_or_else(|error| json!({ "function_id": id, "error": error })));
        Ok(json!({ "functions": infos.collect::<Vec<Value>>() }))
    }
}

fn may_see(workers: &Workers, from: Peer, id: &str, spec: &FunctionSpec) -> bool {
    workers.grant(from).is_none_or(|grant| grant.may_call(id, spec.metadata.as_ref()))
}

impl FunctionSpec {
    fn row(&self, id: &str, worker: &str) -> Value {
        json!({
            "function_id": id,
            "worker_name": worker,
            "description": self.description,
            "request_format": self.request_format,
            "response_format": self.response_format,
            "metadata": self.metadata,
            "namespace": "default",
        })
    }

    fn info(&self, id: &str, worker: &str, triggers: &Value) -> Value {
        let mut info = json!({
            "function_id": id,
            "namespace": "default",
            "worker_name": worker,
            "registered_triggers": triggers,
        });
        let optional = [
            ("description", self.description.clone().map(Value::from)),
            ("request_schema", self.request_format.clone()),
            ("response_schema", self.response_format.clone()),
            ("metadata", self.metadata.clone()),
        ];
        for (name, value) in optional.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            info[name] = value;
        }
        info
    }
}

/// Parses a payload, which is known to be valid JSON.
pub(super) fn parse_payload(raw: Option<&RawValue>) -> Option<Value> {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok())
}
