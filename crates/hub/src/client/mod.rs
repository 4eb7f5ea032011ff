//! The client side of the protocol: a worker connected to a hub in another process.
//!
//! Registrations are stored and sent to the hub again after each reconnect. A call without a connection fails at once.

mod link;
mod state;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

use crate::error::{CallError, HubError};
use crate::local::{LocalFunction, LocalTriggerType};
use crate::lock;
use crate::wire::Object;
use state::{ClientState, Subscription};

/// Options for creating a client.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// URL of the hub, such as `ws://127.0.0.1:49134`.
    pub url: String,
    /// Bearer token, if the hub requires one.
    pub token: Option<String>,
    /// Name of the worker.
    pub name: String,
}

/// A connection to a hub; clones share it. It closes when the last clone is dropped.
#[derive(Clone)]
pub struct Client {
    book: Arc<Mutex<ClientState>>,
    ids: Arc<Ids>,
    _alive: Arc<DropGuard>,
}

impl Client {
    /// Connects. A lost connection is reestablished automatically.
    pub async fn connect(options: ClientOptions) -> Result<Self, HubError> {
        let socket = link::open(&options).await?;
        let book = Arc::new(Mutex::new(ClientState::default()));
        let ended = CancellationToken::new();
        // Mark it as connected now: the next call must find the link.
        let messages = lock(&book).on_connect(&options.name);
        tokio::spawn(link::keep(options, Arc::clone(&book), socket, messages, ended.clone()));
        let ids = Arc::new(Ids { first: Uuid::new_v4(), last: AtomicU64::new(0) });
        Ok(Self { book, ids, _alive: Arc::new(ended.drop_guard()) })
    }

    /// Calls a function.
    pub async fn call(&self, function_id: &str, data: &Value, timeout: Duration) -> Result<Value, CallError> {
        let id = self.ids.next();
        let (sender, answer) = oneshot::channel();
        let message = Object::message("invokefunction")
            .id("invocation_id", id)
            .text("function_id", function_id)
            .raw("data", &data.to_string());
        {
            let mut book = lock(&self.book);
            if !book.send(message.end()) {
                return Err(CallError::not_connected());
            }
            book.calls.insert(id, sender);
        }
        match tokio::time::timeout(timeout, answer).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(CallError::not_connected()),
            Err(_) => {
                lock(&self.book).calls.remove(&id);
                Err(CallError::timeout(timeout))
            }
        }
    }

    /// Registers a function at the hub.
    pub fn register_function(&self, function: LocalFunction) {
        let mut book = lock(&self.book);
        book.send(state::function(&function));
        book.functions.insert(function.id.clone(), function);
    }

    /// Subscribes a function to a trigger type; returns the id of the subscription.
    pub fn register_trigger(&self, trigger_type: &str, function_id: &str, config: &Value) -> String {
        let id = Uuid::new_v4().to_string();
        let trigger = Subscription {
            trigger_type: trigger_type.to_owned(),
            function_id: function_id.to_owned(),
            config: config.clone(),
        };
        let mut book = lock(&self.book);
        book.send(state::trigger(&id, &trigger));
        book.triggers.insert(id.clone(), trigger);
        id
    }

    /// Registers a trigger type. Its subscriptions are stored here, and called by [`Client::fire`].
    pub fn register_trigger_type(&self, kind: LocalTriggerType) {
        let mut book = lock(&self.book);
        book.send(state::trigger_type(&kind));
        book.types.insert(kind.id.clone(), kind);
    }

    /// Notifies all subscribers of a trigger type of this client.
    pub fn fire(&self, trigger_type: &str, payload: &Value) {
        let book = lock(&self.book);
        let concerned = book.subscribers.values().filter(|found| found.trigger_type == trigger_type);
        for subscriber in concerned {
            book.send(state::void(&subscriber.function_id, payload));
        }
    }
}

/// Generator of call ids. They need not be unguessable: only the callee can answer a call.
struct Ids {
    first: Uuid,
    last: AtomicU64,
}

impl Ids {
    fn next(&self) -> Uuid {
        let (high, low) = self.first.as_u64_pair();
        Uuid::from_u64_pair(high, low ^ self.last.fetch_add(1, Ordering::Relaxed))
    }
}
