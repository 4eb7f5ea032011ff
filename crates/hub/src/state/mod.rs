//! `state::*`: values under scopes and keys, in the realm's store.

mod update;

use std::sync::Arc;

use meerkat_store::{Change, Guard, StateQuery, Store, Transaction};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::error::CallError;
use crate::hub::ReservedScopes;
use update::{Operation, apply};

/// The trigger type that fires when a value changes.
pub(crate) const CHANGED: &str = "state";

/// Maximum number of attempts for an update that conflicts with concurrent changes.
const ATTEMPTS: usize = 32;

/// Rejects a state call that a connection under access rules may not make. The queues are closed to it: queued calls
/// run on behalf of the hub.
pub(crate) async fn check_scope(
    function: &str,
    data: &Value,
    reserved: Option<&ReservedScopes>,
) -> Result<(), CallError> {
    let Some(scope) = data.get("scope").and_then(Value::as_str) else { return Ok(()) };
    let is_write = matches!(function, "state::set" | "state::update" | "state::delete");
    let reserved = match reserved.filter(|_| is_write) {
        Some(reserved) => reserved().await,
        None => Vec::new(),
    };
    if scope == crate::queue::SCOPE || reserved.iter().any(|known| known == scope) {
        return Err(CallError::new("FORBIDDEN", format!("scope '{scope}' is reserved")));
    }
    Ok(())
}

/// A change, as reported to the subscribers of the state.
#[derive(Debug)]
pub(crate) struct Changed {
    pub(crate) scope: String,
    pub(crate) key: String,
    pub(crate) old: Option<Value>,
    pub(crate) new: Option<Value>,
}

impl Changed {
    pub(crate) fn payload(&self) -> Value {
        let event = match (&self.old, &self.new) {
            (_, None) => "state:deleted",
            (None, Some(_)) => "state:created",
            (Some(_), Some(_)) => "state:updated",
        };
        json!({
            "type": CHANGED,
            "event_type": event,
            "scope": self.scope,
            "key": self.key,
            "old_value": self.old,
            "new_value": self.new,
        })
    }

    /// Returns `true` if a trigger with this config matches the change.
    pub(crate) fn is_watched_by(&self, config: &Value) -> bool {
        let fits = |name: &str, value: &str| {
            config.get(name).and_then(Value::as_str).is_none_or(|wanted| wanted == value)
        };
        fits("scope", &self.scope) && fits("key", &self.key)
    }
}

#[derive(Deserialize)]
struct Set {
    scope: String,
    key: String,
    #[serde(default, alias = "data")]
    value: Value,
}

#[derive(Deserialize)]
struct At {
    scope: String,
    key: String,
}

#[derive(Deserialize)]
struct Scope {
    scope: String,
}

#[derive(Deserialize)]
struct Update {
    scope: String,
    key: String,
    ops: Vec<Operation>,
}

/// The values of a realm.
#[derive(Clone)]
pub(crate) struct State(pub(crate) Arc<dyn Store>);

impl State {
    /// Runs one of the functions; also returns the change it made.
    pub(crate) async fn run(
        &self,
        function: &str,
        data: Value,
    ) -> Result<(Value, Option<Changed>), CallError> {
        match function {
            "state::set" => self.set(input(function, data)?).await,
            "state::get" => {
                let At { scope, key } = input(function, data)?;
                let found = self.get(&scope, &key).await?;
                Ok((found.map_or(Value::Null, |bytes| json_of(&bytes)), None))
            }
            "state::delete" => self.delete(input(function, data)?).await,
            "state::list" => {
                let Scope { scope } = input(function, data)?;
                let rows = self.0.state(StateQuery::Scope(scope)).await;
                let rows = rows.map_err(|error| stored("LIST_ERROR", &error))?;
                Ok((rows.iter().map(|row| json_of(&row.value)).collect(), None))
            }
            "state::list_groups" => {
                let scopes = self.0.scopes().await.map_err(|error| stored("LIST_GROUPS_ERROR", &error))?;
                Ok((json!({ "groups": scopes }), None))
            }
            _ => self.update(input(function, data)?).await,
        }
    }

    async fn get(&self, scope: &str, key: &str) -> Result<Option<Vec<u8>>, CallError> {
        let query = StateQuery::Key { scope: scope.to_owned(), key: key.to_owned() };
        let rows = self.0.state(query).await.map_err(|error| stored("GET_ERROR", &error))?;
        Ok(rows.into_iter().next().map(|row| row.value))
    }

    async fn set(&self, set: Set) -> Result<(Value, Option<Changed>), CallError> {
        let Set { scope, key, value } = set;
        let bytes = value.to_string().into_bytes();
        let change = Change::PutState { scope: scope.clone(), key: key.clone(), value: bytes };
        let old = self.commit(Vec::new(), change).await.map_err(|error| stored("SET_ERROR", &error))?;
        let result = json!({ "old_value": old, "new_value": value });
        Ok((result, Some(Changed { scope, key, old, new: Some(value) })))
    }

    async fn delete(&self, at: At) -> Result<(Value, Option<Changed>), CallError> {
        let At { scope, key } = at;
        let change = Change::DeleteState { scope: scope.clone(), key: key.clone() };
        let old = self.commit(Vec::new(), change).await.map_err(|error| stored("DELETE_ERROR", &error))?;
        let Some(old) = old else { return Ok((Value::Null, None)) };
        Ok((old.clone(), Some(Changed { scope, key, old: Some(old), new: None })))
    }

    async fn update(&self, update: Update) -> Result<(Value, Option<Changed>), CallError> {
        let Update { scope, key, ops } = update;
        for _ in 0..ATTEMPTS {
            let bytes = self.get(&scope, &key).await?;
            let old = bytes.as_deref().map(json_of);
            let (new, errors) = apply(old.clone().unwrap_or_default(), &ops);
            let mut result = json!({ "old_value": old, "new_value": new });
            if !errors.is_empty() {
                result["errors"] = errors.into();
            }
            if old.as_ref() == Some(&new) {
                return Ok((result, None));
            }
            let guard = Guard::State { scope: scope.clone(), key: key.clone(), value: bytes };
            let value = new.to_string().into_bytes();
            let change = Change::PutState { scope: scope.clone(), key: key.clone(), value };
            match self.commit(vec![guard], change).await {
                Ok(_) => return Ok((result, Some(Changed { scope, key, old, new: Some(new) }))),
                Err(meerkat_store::Error::StateChanged { .. }) => {}
                Err(error) => return Err(stored("UPDATE_ERROR", &error)),
            }
        }
        Err(CallError::new("UPDATE_ERROR", format!("`{key}` changes faster than it can be updated")))
    }

    async fn commit(
        &self,
        guards: Vec<Guard>,
        change: Change,
    ) -> Result<Option<Value>, meerkat_store::Error> {
        let committed = self.0.commit(Transaction { guards, changes: vec![change] }).await?;
        Ok(committed.replaced.as_deref().map(json_of))
    }
}

fn input<T: DeserializeOwned>(function: &str, data: Value) -> Result<T, CallError> {
    serde_json::from_value(data).map_err(|error| CallError::undecodable(function, &error.to_string()))
}

fn stored(code: &str, error: &meerkat_store::Error) -> CallError {
    CallError::new(code, error.to_string())
}

fn json_of(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_default()
}
