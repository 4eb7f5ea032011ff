//! Callbacks of this process: handlers, trigger hosts, the log, and registration hooks.

use std::sync::{Arc, Mutex, OnceLock};

use meerkat_hub::{Access, Hub, HubOptions, Limits, LocalFunction, LocalTriggerType, Rbac, TriggerHost};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::store::MemoryStore;
use crate::support::{TIMEOUT, serve, serve_with};

#[tokio::test]
async fn panicking_handler_is_answered_with_an_error() {
    let served = serve();
    let client = served.client("client").await;
    let at_once = |_| -> std::future::Ready<_> { panic!("at once") };
    let later = |_| async { panic!("later") };
    served.hub.register(LocalFunction::new("hub::at-once", at_once)).unwrap();
    served.hub.register(LocalFunction::new("hub::later", later)).unwrap();
    client.register_function(LocalFunction::new("client::at-once", at_once));
    client.register_function(LocalFunction::new("client::later", later));
    for id in ["hub::at-once", "hub::later", "client::at-once", "client::later"] {
        let error = client.call(id, &json!({}), TIMEOUT).await.unwrap_err();
        assert_eq!(error.code, "invocation_failed");
        assert_eq!(error.message, format!("the handler of `{id}` panicked"));
    }
}

/// A host that calls the hub, and records its own calls.
#[derive(Default)]
struct Curious {
    hub: OnceLock<Hub>,
    notes: Mutex<Vec<String>>,
}

impl Curious {
    fn note(&self, text: &str) {
        let count = self.hub.get().map(|hub| hub.functions().len());
        self.notes.lock().unwrap().push(format!("{text} {count:?}"));
    }
}

impl TriggerHost for Curious {
    fn register(&self, trigger_id: &str, function_id: &str, _: &str) {
        self.note(&format!("+{trigger_id} {function_id}"));
    }

    fn unregister(&self, trigger_id: &str) {
        self.note(&format!("-{trigger_id}"));
    }
}

#[tokio::test]
async fn callbacks_may_call_the_hub() {
    let curious = Arc::new(Curious::default());
    let mut options = HubOptions::new(Arc::new(MemoryStore::default()));
    let log = Arc::clone(&curious);
    options.log = Some(Arc::new(move |line| log.note(line)));
    let hub = Hub::new(options);
    assert!(curious.hub.set(hub.clone()).is_ok());
    let host = Arc::clone(&curious);
    let (id, description) = ("t".to_owned(), "d".to_owned());
    hub.register_trigger_type(LocalTriggerType { id, description, host: Some(host) }).unwrap();
    let register = json!({ "trigger_type": "t", "function_id": "f" });
    let registered = hub.call("engine::register_trigger", &register, TIMEOUT).await.unwrap();
    hub.call("engine::log::info", &json!({ "message": "hello" }), TIMEOUT).await.unwrap();
    hub.call("engine::unregister_trigger", &registered, TIMEOUT).await.unwrap();
    let id = registered["id"].as_str().unwrap();
    let expected =
        [format!("+{id} f Some(0)"), "the hub: info: hello Some(0)".into(), format!("-{id} Some(0)")];
    assert_eq!(*curious.notes.lock().unwrap(), expected);
}

#[tokio::test]
async fn subscription_is_in_place_before_the_next_call() {
    let served = serve();
    let hub = served.hub.clone();
    let host = Arc::new(Curious::default());
    let (id, description) = ("t".to_owned(), "d".to_owned());
    let kind = LocalTriggerType { id, description, host: Some(host.clone()) };
    hub.register_trigger_type(kind).unwrap();
    let notes = move |_| {
        let notes = host.notes.lock().unwrap().clone();
        async move { Ok(json!(notes)) }
    };
    hub.register(LocalFunction::new("notes", notes)).unwrap();
    let mut raw = served.raw().await;
    raw.send(json!({ "type": "registertrigger", "id": "x", "trigger_type": "t", "function_id": "f", "config": {} }))
        .await;
    assert_eq!(raw.call("notes", json!({})).await["result"], json!(["+x f None"]));
}

#[tokio::test]
async fn messages_wait_for_a_registration_hook() {
    let rbac: Rbac =
        serde_json::from_value(json!({ "expose_functions": ["api::*"], "auth_function_id": "auth",
        "on_function_registration_function_id": "hook" }))
        .unwrap();
    let access = Access { rbac: Some(rbac), ..Access::default() };
    let served = serve_with(Arc::new(MemoryStore::default()), Limits::default(), access, "127.0.0.1:0");
    let (open, gate) = watch::channel(false);
    let hook = move |call: meerkat_hub::Invocation| {
        let mut gate = gate.clone();
        async move {
            gate.wait_for(|open| *open).await.unwrap();
            match call.data["id"].as_str() {
                Some("api::bad") => Err(meerkat_hub::CallError::failed("no")),
                _ => Ok(Value::Null),
            }
        }
    };
    served.hub.register(LocalFunction::new("hook", hook)).unwrap();
    let auth = async |_| Ok(json!({ "allowed_registrations": ["api::*"] }));
    served.hub.register(LocalFunction::new("auth", auth)).unwrap();
    let mut guest = served.raw().await;
    for id in ["api::f", "api::bad"] {
        guest.send(json!({ "type": "registerfunction", "id": id })).await;
        let call =
            json!({ "type": "invokefunction", "invocation_id": uuid::Uuid::new_v4(), "function_id": id });
        guest.send(call).await;
    }
    // Answers do not wait.
    guest.send(json!({ "type": "ping" })).await;
    assert_eq!(guest.receive().await, json!({ "type": "pong" }));
    open.send_replace(true);
    assert_eq!(guest.receive().await["function_id"], "api::f");
    let refused = guest.receive().await;
    assert_eq!(
        (&refused["function_id"], &refused["error"]["code"]),
        (&json!("api::bad"), &json!("function_not_found"))
    );
}
