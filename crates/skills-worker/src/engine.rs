//! The registry on an engine: its functions and trigger types, and a bus backed by the engine.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use iii_sdk::{
    III, IIIError, InitOptions, RegisterFunctionMessage, RegisterTriggerType, TriggerAction, TriggerConfig,
    TriggerHandler, TriggerRequest, register_worker,
};
use meerkat_core::{BoxFuture, Clock, Timestamp};
use meerkat_registry::{Bus, BusError, Options, Registry, Reply, functions, listed_values, trigger_types};
use serde_json::{Value, json};

/// The registry, connected to an engine. The SDK connects in the background and reconnects as needed.
pub struct Worker {
    iii: III,
}

impl Worker {
    /// Registers the trigger types and functions with the engine at `url`.
    #[must_use]
    pub fn start(url: &str, options: Options) -> Self {
        let iii = register_worker(url, InitOptions::default());
        let bus = Engine { iii: iii.clone(), timeout: options.timeout };
        let registry = Registry::new(Arc::new(bus), Arc::new(SystemClock), options);
        for kind in trigger_types() {
            let subscribers = Subscribers { registry: registry.clone(), trigger_type: kind.id };
            iii.register_trigger_type(RegisterTriggerType::new(kind.id, kind.description, subscribers));
        }
        for function in functions() {
            let mut message = RegisterFunctionMessage::with_id(function.id.to_owned());
            message.description = Some(function.description.to_owned());
            message.request_format = Some(function.request_format.clone());
            message.response_format = Some(function.response_format.clone());
            let registry = registry.clone();
            let handler = move |data: Value| {
                let registry = registry.clone();
                async move {
                    let result = registry.call(function.id, data).await;
                    result.map_err(|error| IIIError::Handler(error.to_string()))
                }
            };
            iii.register_function_with(message, handler);
        }
        Self { iii }
    }

    /// Disconnects from the engine.
    pub async fn stop(self) {
        self.iii.shutdown_async().await;
    }
}

struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'_, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// Handler for triggers of one type; the registry stores the subscriptions.
struct Subscribers {
    registry: Registry,
    trigger_type: &'static str,
}

type HandlerFuture<'a> = Pin<Box<dyn Future<Output = Result<(), IIIError>> + Send + 'a>>;

impl TriggerHandler for Subscribers {
    fn register_trigger<'a: 'b, 'b>(&'a self, config: TriggerConfig) -> HandlerFuture<'b> {
        self.registry.subscribe(self.trigger_type, &config.id, &config.function_id);
        Box::pin(async { Ok(()) })
    }

    fn unregister_trigger<'a: 'b, 'b>(&'a self, config: TriggerConfig) -> HandlerFuture<'b> {
        self.registry.unsubscribe(&config.id);
        Box::pin(async { Ok(()) })
    }
}

/// Bus backed by an engine.
struct Engine {
    iii: III,
    /// Timeout for reading or writing a value.
    timeout: Duration,
}

impl Engine {
    async fn invoke(&self, function: &str, data: Value, timeout: Duration) -> Result<Value, BusError> {
        let request = TriggerRequest {
            function_id: function.to_owned(),
            payload: data,
            action: None,
            timeout_ms: Some(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
        };
        self.iii.trigger(request).await.map_err(to_bus_error)
    }
}

fn to_bus_error(error: IIIError) -> BusError {
    match error {
        IIIError::Remote { code, message, .. } => BusError::Remote { code, message },
        IIIError::Timeout => BusError::Timeout,
        IIIError::NotConnected => BusError::NotConnected,
        other => BusError::Failed(Box::new(other)),
    }
}

impl Bus for Engine {
    fn call<'a>(&'a self, function: &'a str, data: Value, timeout: Duration) -> Reply<'a, Value> {
        Box::pin(self.invoke(function, data, timeout))
    }

    fn send(&self, function: &str, data: Value) {
        let (iii, function_id) = (self.iii.clone(), function.to_owned());
        tokio::spawn(async move {
            let (action, timeout_ms) = (Some(TriggerAction::Void), None);
            // The caller does not wait, so an error has no recipient.
            let _ = iii.trigger(TriggerRequest { function_id, payload: data, action, timeout_ms }).await;
        });
    }

    fn get<'a>(&'a self, scope: &'a str, key: &'a str) -> Reply<'a, Option<Value>> {
        Box::pin(async move {
            let value =
                self.invoke("state::get", json!({ "scope": scope, "key": key }), self.timeout).await?;
            Ok(Some(value).filter(|value| !value.is_null()))
        })
    }

    fn set<'a>(&'a self, scope: &'a str, key: &'a str, value: Value) -> Reply<'a, ()> {
        Box::pin(async move {
            let data = json!({ "scope": scope, "key": key, "value": value });
            self.invoke("state::set", data, self.timeout).await.map(drop)
        })
    }

    fn delete<'a>(&'a self, scope: &'a str, key: &'a str) -> Reply<'a, Option<Value>> {
        Box::pin(async move {
            let deleted =
                self.invoke("state::delete", json!({ "scope": scope, "key": key }), self.timeout).await?;
            Ok(Some(deleted).filter(|value| !value.is_null()))
        })
    }

    fn list<'a>(&'a self, scope: &'a str) -> Reply<'a, Vec<Value>> {
        Box::pin(async move {
            self.invoke("state::list", json!({ "scope": scope }), self.timeout).await.map(listed_values)
        })
    }
}
