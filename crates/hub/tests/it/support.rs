//! A hub on a free port, and a worker that sends arbitrary messages.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use meerkat_hub::{Access, Client, ClientOptions, Hub, HubOptions, Limits, StateStore, bind};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};
use tokio_util::sync::CancellationToken;

use crate::store::MemoryStore;

pub(crate) const TIMEOUT: Duration = Duration::from_secs(120);

pub(crate) struct TestHub {
    pub(crate) hub: Hub,
    pub(crate) address: String,
    pub(crate) over: CancellationToken,
    pub(crate) task: tokio::task::JoinHandle<()>,
}

pub(crate) fn serve() -> TestHub {
    serve_with(Arc::new(MemoryStore::default()), Limits::default(), Access::default(), "127.0.0.1:0")
}

pub(crate) fn serve_with(
    store: Arc<dyn StateStore>,
    limits: Limits,
    access: Access,
    address: &str,
) -> TestHub {
    let hub = Hub::new(HubOptions { store, limits, log: None });
    let listener = bind(address, &access).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let over = CancellationToken::new();
    let (serving, until) = (hub.clone(), over.clone());
    let task = tokio::spawn(async move { serving.serve(listener, access, until.cancelled_owned()).await });
    TestHub { hub, address, over, task }
}

impl TestHub {
    pub(crate) async fn client(&self, name: &str) -> Client {
        let url = format!("ws://{}", self.address);
        Client::connect(ClientOptions { url, token: None, name: name.to_owned() }).await.unwrap()
    }

    pub(crate) async fn raw(&self) -> Raw {
        let mut raw = Raw::open(&self.address, "/").await.unwrap();
        assert_eq!(raw.receive().await["type"], "workerregistered");
        raw
    }
}

/// A worker without an SDK.
pub(crate) struct Raw(pub(crate) WebSocketStream<TcpStream>);

impl Raw {
    pub(crate) async fn open(address: &str, path: &str) -> Result<Self, Box<Error>> {
        let stream = TcpStream::connect(address).await.unwrap();
        let (socket, _) = client_async(format!("ws://{address}{path}"), stream).await.map_err(Box::new)?;
        Ok(Self(socket))
    }

    pub(crate) async fn send(&mut self, message: Value) {
        self.0.send(Message::text(message.to_string())).await.unwrap();
    }

    /// Returns the next text message.
    pub(crate) async fn receive(&mut self) -> Value {
        loop {
            let message = tokio::time::timeout(TIMEOUT, self.0.next()).await.expect("a message in time");
            if let Message::Text(text) = message.expect("a connection").expect("a message") {
                return serde_json::from_str(&text).unwrap();
            }
        }
    }

    /// Calls a function and returns its answer, ignoring other messages.
    pub(crate) async fn call(&mut self, function: &str, data: Value) -> Value {
        let id = uuid::Uuid::new_v4().to_string();
        self.send(
            json!({ "type": "invokefunction", "invocation_id": id, "function_id": function, "data": data }),
        )
        .await;
        loop {
            let message = self.receive().await;
            if message["invocation_id"] == id && message["type"] == "invocationresult" {
                return message;
            }
        }
    }
}
