//! The registry's bus: values are in the realm's store, calls go through the realm's hub.

use std::sync::Arc;
use std::time::Duration;

use meerkat_core::BoxFuture;
use meerkat_hub::StateStore as _;
use meerkat_registry::{Bus, BusError, Changes, Exchange, Reply};
use meerkat_store::{StateRow, Store};
use serde_json::Value;

use super::HubLink;
use super::state::RealmState;

pub(super) struct RealmBus {
    state: RealmState,
    link: Arc<HubLink>,
}

impl RealmBus {
    pub(super) fn new(store: Arc<dyn Store>, link: Arc<HubLink>) -> Self {
        Self { state: RealmState(store), link }
    }
}

impl Bus for RealmBus {
    fn call<'a>(&'a self, function: &'a str, data: Value, timeout: Duration) -> Reply<'a, Value> {
        Box::pin(self.link.call(function, data, timeout))
    }

    fn send(&self, function: &str, data: Value) {
        self.link.send(function, &data);
    }

    fn get<'a>(&'a self, scope: &'a str, key: &'a str) -> Reply<'a, Option<Value>> {
        Box::pin(async {
            let value = self.state.get(scope, key).await.map_err(BusError::Failed)?;
            Ok(value.and_then(|value| serde_json::from_slice(&value).ok()))
        })
    }

    fn set<'a>(&'a self, scope: &'a str, key: &'a str, value: Value) -> Reply<'a, ()> {
        let values = vec![(key.to_owned(), Some(value.to_string().into_bytes()))];
        Box::pin(async { self.state.put(scope, values).await.map(drop).map_err(BusError::Failed) })
    }

    fn delete<'a>(&'a self, scope: &'a str, key: &'a str) -> Reply<'a, Option<Value>> {
        Box::pin(async {
            let removed =
                self.state.put(scope, vec![(key.to_owned(), None)]).await.map_err(BusError::Failed)?;
            Ok(removed.as_deref().map(existing))
        })
    }

    fn exchange<'a>(
        &'a self,
        scope: &'a str,
        key: &'a str,
        value: Option<Value>,
        allowed: &'a (dyn Fn(Option<&Value>) -> bool + Send + Sync),
    ) -> Reply<'a, Exchange> {
        let value = value.map(|value| value.to_string().into_bytes());
        Box::pin(async move {
            loop {
                let stored = self.state.get(scope, key).await.map_err(BusError::Failed)?;
                // A value that cannot be parsed has no author who may change it.
                let parsed = stored.as_deref().map(existing);
                if !allowed(parsed.as_ref()) {
                    return Ok(Exchange::Denied);
                }
                let replaced = self.state.replace(scope, key, stored, value.clone()).await;
                // If another process changed the value, check the new value, too.
                if replaced.map_err(BusError::Failed)? {
                    return Ok(Exchange::Done(parsed));
                }
            }
        })
    }

    fn list<'a>(&'a self, scope: &'a str) -> Reply<'a, Vec<Value>> {
        Box::pin(async {
            let values = self.state.list(scope).await.map_err(BusError::Failed)?;
            // Stored values that are not JSON were not written by this protocol.
            Ok(values.iter().filter_map(|value| serde_json::from_slice(value).ok()).collect())
        })
    }

    fn revision<'a>(&'a self, scope: &'a str) -> BoxFuture<'a, Option<u64>> {
        Box::pin(async { self.state.0.revision(scope.to_owned()).await.ok() })
    }

    fn changes<'a>(&'a self, scope: &'a str, since: u64) -> Reply<'a, Option<Changes>> {
        Box::pin(async move {
            let changes = self.state.0.state_changes(scope.to_owned(), since).await;
            let changes = changes.map_err(|error| BusError::Failed(Box::new(error)))?;
            // A value that is not JSON replaces the previous one, and is not listed.
            let parse = |row: StateRow| (row.key, serde_json::from_slice(&row.value).unwrap_or_default());
            let put = changes.put.into_iter().map(parse).collect();
            Ok(Some(Changes { revision: changes.revision, put, keys: changes.keys }))
        })
    }
}

/// Parses a stored value. One that cannot be parsed still exists.
fn existing(value: &[u8]) -> Value {
    serde_json::from_slice(value).unwrap_or(Value::Bool(true))
}
