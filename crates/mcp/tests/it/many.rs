//! Many servers at once, and the log lines about lost ones.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use meerkat_core::BoxFuture;
use meerkat_mcp::{HandshakeMemory, ServerSet, ServerSetOptions, ServerState};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};

use crate::support::{LONG, call, create_set_with, odd, ready_set, until, view};

/// Maximum number of servers that connect at once.
const MAX_CONNECTING: usize = 8;

/// Keeps connecting servers waiting, and counts them.
struct Gate {
    entered: AtomicUsize,
    inside: AtomicUsize,
    most: AtomicUsize,
    open: Semaphore,
}

impl Gate {
    fn new() -> Arc<Self> {
        let open = Semaphore::new(0);
        Arc::new(Self { entered: 0.into(), inside: 0.into(), most: 0.into(), open })
    }

    fn entered(&self) -> usize {
        self.entered.load(Ordering::Relaxed)
    }
}

impl HandshakeMemory for Gate {
    fn is_silent(&self, _: &str) -> BoxFuture<'_, bool> {
        Box::pin(async {
            self.entered.fetch_add(1, Ordering::Relaxed);
            let inside = self.inside.fetch_add(1, Ordering::Relaxed) + 1;
            self.most.fetch_max(inside, Ordering::Relaxed);
            self.open.acquire().await.unwrap().forget();
            self.inside.fetch_sub(1, Ordering::Relaxed);
            false
        })
    }

    fn remember(&self, _: &str) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    fn forget(&self, _: &str) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

fn dead(index: usize) -> Value {
    json!({ "name": format!("dead-{index}"), "command": "/no/such/program" })
}

fn gated_set(gate: &Arc<Gate>, entries: &[Value]) -> Arc<ServerSet> {
    let handshakes = Some(Arc::clone(gate) as Arc<dyn HandshakeMemory>);
    create_set_with(ServerSetOptions { handshakes, ..ServerSetOptions::default() }, entries)
}

#[tokio::test(start_paused = true)]
async fn only_a_few_servers_connect_at_once() {
    let gate = Gate::new();
    let set = gated_set(&gate, &(0..200).map(dead).collect::<Vec<_>>());
    assert!(set.pending_notice().unwrap().contains(", dead-115, and 180 more. "));
    until("the first servers connect", || gate.entered() >= MAX_CONNECTING).await;
    gate.open.add_permits(200);
    assert!(set.wait_until_ready(LONG).await);
    assert_eq!((gate.entered(), gate.most.load(Ordering::Relaxed)), (200, MAX_CONNECTING));
    assert!(set.views().iter().all(|view| matches!(view.state, ServerState::Failed { .. })));
    set.close().await;
}

#[tokio::test(start_paused = true)]
async fn slow_servers_do_not_keep_others_waiting() {
    let gate = Gate::new();
    let set = gated_set(&gate, &(0..3 * MAX_CONNECTING).map(dead).collect::<Vec<_>>());
    until("all servers connect", || gate.entered() == 3 * MAX_CONNECTING).await;
    assert_eq!(set.pending().len(), 3 * MAX_CONNECTING);
    set.close().await;
}

#[tokio::test(start_paused = true)]
async fn required_server_does_not_wait_for_others() {
    let gate = Gate::new();
    let mut entries: Vec<_> = (0..MAX_CONNECTING).map(dead).collect();
    let required = json!({ "name": "z", "command": "/no/such/program", "era": "legacy", "required": true });
    entries.push(required);
    let set = gated_set(&gate, &entries);
    assert_eq!(set.require().await.unwrap_err().server, "z");
    assert_eq!(set.pending().len(), MAX_CONNECTING);
    set.close().await;
}

/// Collects the warnings that are logged.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<BTreeMap<&'static str, String>>>>);

struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN && metadata.target().starts_with("meerkat_mcp")
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(BTreeMap::new());
        event.record(&mut fields);
        self.0.lock().unwrap().push(fields.0);
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[tokio::test]
async fn lost_server_is_logged_once() {
    let warnings = Warnings::default();
    let _guard = tracing::subscriber::set_default(warnings.clone());
    let set = ready_set(&[odd("frail", "dies-in-call")]).await;
    assert!(call(&set, "frail__do", json!({})).await.is_error);
    until("it reconnected", || {
        let view = view(&set, "frail");
        view.restarts == 1 && view.state == ServerState::Ready
    })
    .await;
    set.close().await;
    let logged = warnings.0.lock().unwrap().clone();
    let [line] = &logged[..] else { panic!("{logged:?}") };
    assert_eq!(
        (line["server"].as_str(), line["message"].as_str()),
        ("\"frail\"", "lost the connection to the MCP server")
    );
    assert!(line["reason"].contains("the connection ended"), "{line:?}");
}
