//! `state::*`: values under scopes and keys, in the hub's store.

mod store;
mod update;

use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::error::CallError;
use crate::local::BoxFuture;
use update::{Operation, apply};

pub use store::{StateError, StateReply, StateStore};

/// The trigger type that fires when a value changes.
pub(crate) const CHANGED: &str = "state";

/// Maximum number of attempts for an update that conflicts with concurrent changes.
const ATTEMPTS: usize = 32;

/// Returns the scopes of the state that a connection under access rules may not write.
pub(crate) type ReservedScopes = Arc<dyn Fn() -> BoxFuture<Vec<String>> + Send + Sync>;

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

/// The values in the hub's store.
#[derive(Clone)]
pub(crate) struct State(pub(crate) Arc<dyn StateStore>);

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
                Ok((self.get(&scope, &key).await?.as_deref().map_or(Value::Null, json_of), None))
            }
            "state::delete" => self.delete(input(function, data)?).await,
            "state::list" => {
                let Scope { scope } = input(function, data)?;
                let values = self.0.list(&scope).await.map_err(failure("LIST_ERROR"))?;
                Ok((values.iter().map(|bytes| json_of(bytes)).collect(), None))
            }
            "state::list_groups" => {
                let scopes = self.0.scopes().await.map_err(failure("LIST_GROUPS_ERROR"))?;
                Ok((json!({ "groups": scopes }), None))
            }
            _ => self.update(input(function, data)?).await,
        }
    }

    async fn get(&self, scope: &str, key: &str) -> Result<Option<Vec<u8>>, CallError> {
        self.0.get(scope, key).await.map_err(failure("GET_ERROR"))
    }

    async fn set(&self, set: Set) -> Result<(Value, Option<Changed>), CallError> {
        let Set { scope, key, value } = set;
        let values = vec![(key.clone(), Some(value.to_string().into_bytes()))];
        let old = self.0.put(&scope, values).await.map_err(failure("SET_ERROR"))?;
        let old = old.as_deref().map(json_of);
        let result = json!({ "old_value": old, "new_value": value });
        Ok((result, Some(Changed { scope, key, old, new: Some(value) })))
    }

    async fn delete(&self, at: At) -> Result<(Value, Option<Changed>), CallError> {
        let At { scope, key } = at;
        let old = self.0.put(&scope, vec![(key.clone(), None)]).await.map_err(failure("DELETE_ERROR"))?;
        let Some(old) = old.as_deref().map(json_of) else { return Ok((Value::Null, None)) };
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
            let value = Some(new.to_string().into_bytes());
            if self.0.replace(&scope, &key, bytes, value).await.map_err(failure("UPDATE_ERROR"))? {
                return Ok((result, Some(Changed { scope, key, old, new: Some(new) })));
            }
        }
        Err(CallError::new("UPDATE_ERROR", format!("`{key}` changes faster than it can be updated")))
    }
}

fn input<T: DeserializeOwned>(function: &str, data: Value) -> Result<T, CallError> {
    serde_json::from_value(data).map_err(|error| CallError::undecodable(function, &error.to_string()))
}

/// Reports an error of the store under this code.
fn failure(code: &str) -> impl Fn(StateError) -> CallError {
    move |error| CallError::new(code, error.to_string())
}

fn json_of(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_default()
}
