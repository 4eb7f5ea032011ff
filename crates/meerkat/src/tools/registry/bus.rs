//! The registry's bus: values are in the realm's store, calls go through the realm's hub.

use std::sync::Arc;
use std::time::Duration;

use meerkat_core::BoxFuture;
use meerkat_registry::{Bus, BusError, Changes, Exchange, Reply};
use meerkat_store::{Change, Guard, StateQuery, StateRow, Store, Transaction};
use serde_json::Value;

use super::HubLink;

pub(super) struct RealmBus {
    store: Arc<dyn Store>,
    link: Arc<HubLink>,
}

impl RealmBus {
    pub(super) fn new(store: Arc<dyn Store>, link: Arc<HubLink>) -> Self {
        Self { store, link }
    }

    async fn commit(&self, change: Change) -> Result<Option<Vec<u8>>, BusError> {
        let transaction = Transaction { guards: Vec::new(), changes: vec![change] };
        Ok(self.store.commit(transaction).await.map_err(bus_error)?.replaced)
    }

    async fn read(&self, query: StateQuery) -> Result<Vec<Value>, BusError> {
        let rows = self.store.state(query).await.map_err(bus_error)?;
        // Stored values that are not JSON were not written by this protocol.
        Ok(rows.iter().filter_map(|row| serde_json::from_slice(&row.value).ok()).collect())
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
        let query = StateQuery::Key { scope: scope.to_owned(), key: key.to_owned() };
        Box::pin(async { Ok(self.read(query).await?.pop()) })
    }

    fn set<'a>(&'a self, scope: &'a str, key: &'a str, value: Value) -> Reply<'a, ()> {
        let value = value.to_string().into_bytes();
        let put = Change::PutState { scope: scope.to_owned(), key: key.to_owned(), value };
        Box::pin(async { self.commit(put).await.map(drop) })
    }

    fn delete<'a>(&'a self, scope: &'a str, key: &'a str) -> Reply<'a, Option<Value>> {
        let delete = Change::DeleteState { scope: scope.to_owned(), key: key.to_owned() };
        Box::pin(async {
            let removed = self.commit(delete).await?;
            // A value that cannot be parsed still existed.
            Ok(removed.map(|value| serde_json::from_slice(&value).unwrap_or(Value::Bool(true))))
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
                let query = StateQuery::Key { scope: scope.to_owned(), key: key.to_owned() };
                let stored = self.store.state(query).await.map_err(bus_error)?.pop().map(|row| row.value);
                // A value that cannot be parsed has no author who may change it.
                let parsed =
                    stored.as_deref().map(|bytes| serde_json::from_slice(bytes).unwrap_or(Value::Bool(true)));
                if !allowed(parsed.as_ref()) {
                    return Ok(Exchange::Denied);
                }
                let (scope, key) = (scope.to_owned(), key.to_owned());
                let change = match value.clone() {
                    Some(value) => Change::PutState { scope: scope.clone(), key: key.clone(), value },
                    None => Change::DeleteState { scope: scope.clone(), key: key.clone() },
                };
                let guards = vec![Guard::State { scope, key, value: stored }];
                match self.store.commit(Transaction { guards, changes: vec![change] }).await {
                    Ok(_) => return Ok(Exchange::Done(parsed)),
                    // Another process changed the value; check the new value, too.
                    Err(meerkat_store::Error::StateChanged { .. }) => {}
                    Err(error) => return Err(bus_error(error)),
                }
            }
        })
    }

    fn list<'a>(&'a self, scope: &'a str) -> Reply<'a, Vec<Value>> {
        Box::pin(self.read(StateQuery::Scope(scope.to_owned())))
    }

    fn revision<'a>(&'a self, scope: &'a str) -> BoxFuture<'a, Option<u64>> {
        Box::pin(async { self.store.revision(scope.to_owned()).await.ok() })
    }

    fn changes<'a>(&'a self, scope: &'a str, since: u64) -> Reply<'a, Option<Changes>> {
        Box::pin(async move {
            let changes = self.store.state_changes(scope.to_owned(), since).await.map_err(bus_error)?;
            // A value that is not JSON replaces the previous one, and is not listed.
            let parse = |row: StateRow| (row.key, serde_json::from_slice(&row.value).unwrap_or_default());
            let put = changes.put.into_iter().map(parse).collect();
            Ok(Some(Changes { revision: changes.revision, put, keys: changes.keys }))
        })
    }
}

fn bus_error(error: meerkat_store::Error) -> BusError {
    BusError::Failed(Box::new(error))
}
