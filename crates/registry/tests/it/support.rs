//! An in-memory bus with scripted functions, and a registry on it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use meerkat_core::{BoxFuture, Clock, Timestamp};
use meerkat_registry::{Bus, BusError, Changes, Options, Registry, Reply};
use serde_json::Value;

/// The current time of every test.
pub(crate) const NOW: &str = "2026-05-04T19:23:58.123456789+00:00";

#[derive(Clone)]
pub(crate) enum Answer {
    Value(Value),
    Fails(&'static str, &'static str),
    Never,
}

#[derive(Default)]
pub(crate) struct MemoryBus {
    pub(crate) values: Mutex<BTreeMap<(String, String), Value>>,
    pub(crate) answers: Mutex<HashMap<String, Answer>>,
    pub(crate) calls: Mutex<Vec<(String, Value)>>,
    pub(crate) sent: Mutex<Vec<(String, Value)>>,
    pub(crate) broken: Mutex<Option<&'static str>>,
    /// The reply to a request for changes. `requested` records the revisions of the requests.
    pub(crate) changes: Mutex<Option<Changes>>,
    pub(crate) requested: Mutex<Vec<u64>>,
}

impl MemoryBus {
    pub(crate) fn put(&self, scope: &str, key: &str, value: Value) {
        self.values.lock().unwrap().insert((scope.to_owned(), key.to_owned()), value);
    }

    pub(crate) fn answer(&self, function: &str, answer: Answer) {
        self.answers.lock().unwrap().insert(function.to_owned(), answer);
    }

    fn state<T: Send + 'static>(&self, value: impl FnOnce() -> T) -> Reply<'_, T> {
        let result = match *self.broken.lock().unwrap() {
            Some(message) => {
                Err(BusError::Remote { code: "LIST_ERROR".to_owned(), message: message.to_owned() })
            }
            None => Ok(value()),
        };
        Box::pin(async { result })
    }
}

impl Bus for MemoryBus {
    fn call<'a>(&'a self, function: &'a str, data: Value, _: Duration) -> Reply<'a, Value> {
        self.calls.lock().unwrap().push((function.to_owned(), data));
        let answer = self.answers.lock().unwrap().get(function).cloned();
        Box::pin(async move {
            match answer {
                Some(Answer::Value(value)) => Ok(value),
                Some(Answer::Fails(code, message)) => {
                    Err(BusError::Remote { code: code.to_owned(), message: message.to_owned() })
                }
                Some(Answer::Never) => std::future::pending().await,
                None => Err(BusError::Remote {
                    code: "function_not_found".to_owned(),
                    message: "Function not found".to_owned(),
                }),
            }
        })
    }

    fn send(&self, function: &str, data: Value) {
        self.sent.lock().unwrap().push((function.to_owned(), data));
    }

    fn get<'a>(&'a self, scope: &'a str, key: &'a str) -> Reply<'a, Option<Value>> {
        self.state(|| self.values.lock().unwrap().get(&(scope.to_owned(), key.to_owned())).cloned())
    }

    fn set<'a>(&'a self, scope: &'a str, key: &'a str, value: Value) -> Reply<'a, ()> {
        self.state(|| self.put(scope, key, value))
    }

    fn delete<'a>(&'a self, scope: &'a str, key: &'a str) -> Reply<'a, Option<Value>> {
        self.state(|| self.values.lock().unwrap().remove(&(scope.to_owned(), key.to_owned())))
    }

    fn list<'a>(&'a self, scope: &'a str) -> Reply<'a, Vec<Value>> {
        self.state(|| {
            let values = self.values.lock().unwrap();
            // Not sorted by key, because callers must not rely on an order.
            values.iter().rev().filter(|((s, _), _)| s == scope).map(|(_, value)| value.clone()).collect()
        })
    }

    fn changes<'a>(&'a self, _: &'a str, since: u64) -> Reply<'a, Option<Changes>> {
        self.requested.lock().unwrap().push(since);
        self.state(|| self.changes.lock().unwrap().clone())
    }
}

struct StoppedClock;

impl Clock for StoppedClock {
    fn now(&self) -> Timestamp {
        NOW.parse().unwrap()
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
}

pub(crate) fn registry() -> (Registry, Arc<MemoryBus>) {
    let bus = Arc::new(MemoryBus::default());
    (Registry::new(Arc::clone(&bus) as _, Arc::new(StoppedClock), Options::default()), bus)
}

/// Calls a function that must fail, and returns the error message.
pub(crate) async fn refusal(registry: &Registry, function: &str, data: Value) -> String {
    registry.call(function, data).await.unwrap_err().to_string()
}
