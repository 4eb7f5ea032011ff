//! Sockets: admission of connections, and one task for each of them.

mod channel;
mod pump;
mod upgrade;
mod worker;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_util::sync::CancellationToken;

use crate::access::Access;
use crate::delivery;
use crate::hub::{Hub, Shared};
use crate::limits::Limits;
use upgrade::Route;

pub(crate) use pump::{MessageHandler, Pump};

pub(crate) type Socket = WebSocketStream<TcpStream>;

/// Time limit for the opening handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Time limit for pending handshakes when the hub shuts down.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

impl Hub {
    /// Accepts workers until the future returns, then drops every connection.
    ///
    /// Delivery of queued calls starts with the first call of this method.
    ///
    /// Connections are dropped without a WebSocket close: some SDKs never reconnect after one. Connections already
    /// accepted finish their handshake first, because some SDKs give up otherwise.
    pub async fn serve(&self, listener: TcpListener, access: Access, until: impl Future<Output = ()>) {
        delivery::start(&self.shared);
        let gate = Gate {
            shared: Arc::clone(&self.shared),
            access: Arc::new(access),
            room: Arc::new(Semaphore::new(self.shared.limits.connections)),
            ended: CancellationToken::new(),
        };
        let mut tasks = JoinSet::new();
        tokio::select! {
            () = gate.accept(&listener, &mut tasks) => {}
            () = until => {}
        }
        while let Some(Ok((stream, address))) = listener.accept().now_or_never() {
            tasks.spawn(gate.clone().receive(stream, address));
        }
        drop(listener);
        gate.ended.cancel();
        let all = async { while tasks.join_next().await.is_some() {} };
        // Connections that are not done by then are dropped with the set.
        let _ = tokio::time::timeout(DRAIN_TIMEOUT, all).await;
    }
}

#[derive(Clone)]
struct Gate {
    shared: Arc<Shared>,
    access: Arc<Access>,
    room: Arc<Semaphore>,
    ended: CancellationToken,
}

impl Gate {
    /// Accepts connections while there is capacity; the others stay in the system's backlog.
    async fn accept(&self, listener: &TcpListener, tasks: &mut JoinSet<()>) {
        loop {
            while tasks.try_join_next().is_some() {}
            let Ok(permit) = Arc::clone(&self.room).acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, address)) => {
                    let gate = self.clone();
                    tasks.spawn(async move {
                        gate.receive(stream, address).await;
                        drop(permit);
                    });
                }
                Err(error) => {
                    self.shared.note(&format!("cannot accept a connection: {error}"));
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    async fn receive(self, stream: TcpStream, address: SocketAddr) {
        // Without this, small messages are delayed, which is no reason to reject the connection.
        let _ = stream.set_nodelay(true);
        let knock = upgrade::accept(stream, &self.access, &self.shared, config(&self.shared.limits));
        match tokio::time::timeout(HANDSHAKE, knock).await {
            Ok(Ok((socket, route))) => self.admit(socket, route, address).await,
            Ok(Err(error)) => self.shared.note(&format!("rejected {address}: {error}")),
            Err(_) => self.shared.note(&format!("rejected {address}: handshake timed out")),
        }
    }

    async fn admit(&self, socket: Socket, route: Route, address: SocketAddr) {
        let serve = async {
            match route {
                Route::Worker(request) => {
                    worker::serve(&self.shared, &self.access, socket, request, address).await;
                }
                Route::Telemetry => channel::drain(socket).await,
                Route::Channel { id, key, end } => {
                    channel::serve(&self.shared.services.channels, socket, &id, &key, end).await;
                }
            }
        };
        tokio::select! {
            () = serve => {}
            () = self.ended.cancelled() => {}
        }
    }
}

/// Returns the WebSocket configuration for both sides of the protocol.
pub(crate) fn config(limits: &Limits) -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(32 * 1024)
        .max_message_size(Some(limits.message_bytes))
        .max_frame_size(Some(limits.message_bytes))
}
