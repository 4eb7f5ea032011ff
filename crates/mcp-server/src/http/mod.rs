//! MCP over streamable HTTP, for any number of clients.
//!
//! The SDK speaks the protocol; what stands in front of it is ours: who may come in, how much is taken, and how
//! it ends. Each connection, session, body and stream is bounded, so that no client can keep the others out.

mod bodies;
mod cors;
mod early;
mod front;
mod guard;
mod listen;
mod replay;
mod session;
mod sessions;
mod token;
mod watched;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::layer::{Layer, Service};
use bodies::Bodies;
use front::Front;
pub use guard::{Access, AccessError, Token};
pub use listen::{Listen, ListenError};
use sessions::Sessions;
pub use token::{ClientToken, TokenOptions};

/// How much is taken.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The longest body of a request, in bytes.
    pub body: usize,
    /// Bytes that all unfinished bodies may hold together; a request over it is rejected. The first 8 KiB of each do
    /// not count.
    pub bodies: usize,
    /// How many connections are open at once. Where the system allows fewer files, it is fewer.
    pub connections: usize,
    /// How many sessions there are at once. A new one takes the place of one that is idle.
    pub sessions: usize,
    /// How long a session may be without a request and without a stream.
    pub idle: Duration,
    /// How long a client may take to send the head of a request, the first one and each that follows.
    pub head: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 16 * 1024 * 1024,
            bodies: 128 * 1024 * 1024,
            connections: 16_000,
            sessions: 10_000,
            idle: Duration::from_secs(30 * 60),
            head: Duration::from_secs(15),
        }
    }
}

/// How long a slow call is silent before the client gets its first bytes.
const EARLY: Duration = Duration::from_millis(500);
/// How often a silent stream says that it lives.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How long open connections may take to end.
const FAREWELL: Duration = Duration::from_millis(700);
/// Files that are not connections: the store, the log, and what the system needs.
const OTHER_FILES: u64 = 128;

/// Serves a layer until `closing` is cancelled; then waits for `last_work`, which should end what still runs, and
/// for the answers to be sent.
pub async fn serve<S: Service>(
    layer: Layer<S>,
    listener: TcpListener,
    access: Access,
    limits: Limits,
    closing: CancellationToken,
    last_work: impl Future<Output = ()>,
) {
    let ended = CancellationToken::new();
    let sessions = Sessions::new(limits.sessions, limits.idle);
    let reaper =
        tokio::spawn(ended.clone().run_until_cancelled_owned(sessions::expire(Arc::clone(&sessions))));
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .with_sse_keep_alive(Some(KEEP_ALIVE))
        // The first event of a stream, which says how to come back, depends on the session.
        .with_sse_retry(None)
        .with_max_request_body_bytes(limits.body)
        .with_cancellation_token(ended.clone());
    let title = layer.service().about().title;
    let mcp = StreamableHttpService::new(move || Ok(layer.connect()), Arc::clone(&sessions), config);
    let bodies = Bodies::new(limits.body, limits.bodies);
    let router = Front { mcp, sessions, access, bodies, title }.router();
    let room = connections(limits.connections);
    let open = Arc::new(Semaphore::new(room));
    accept(&listener, &router, &open, limits.head, &closing).await;
    drop(listener);
    last_work.await;
    // What was just answered is still on its way; streams that never end are ended then.
    let all = u32::try_from(room).unwrap_or(u32::MAX);
    if tokio::time::timeout(FAREWELL / 2, open.acquire_many(all)).await.is_err() {
        ended.cancel();
        let _ = tokio::time::timeout(FAREWELL / 2, open.acquire_many(all)).await;
    }
    ended.cancel();
    let _ = reaper.await;
}

/// Takes as many files as the system lets this process have: a connection is one.
pub(crate) fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        // Where the system refuses it, there is room for fewer connections.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}

/// Says how many connections there is room for.
fn connections(wanted: usize) -> usize {
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
    let room = usize::try_from(files.saturating_sub(OTHER_FILES)).unwrap_or(usize::MAX);
    wanted.min(room.max(1)).min(Semaphore::MAX_PERMITS)
}

async fn accept(
    listener: &TcpListener,
    router: &axum::Router,
    open: &Arc<Semaphore>,
    head: Duration,
    closing: &CancellationToken,
) {
    while let Some(accepted) = closing.run_until_cancelled(listener.accept()).await {
        let Ok((stream, _)) = accepted else {
            // Out of files or of memory; what is open will end.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        // An answer is small and must not wait for the next one to fill a packet.
        let _ = stream.set_nodelay(true);
        match Arc::clone(open).try_acquire_owned() {
            Ok(permit) => {
                let serving = connection(stream, router.clone(), head, closing.clone());
                tokio::spawn(async move {
                    serving.await;
                    drop(permit);
                });
            }
            Err(_) => refuse(stream),
        }
    }
}

/// Tells a client for which there is no room.
fn refuse(mut stream: TcpStream) {
    const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\nconnection: close\r\n\
        content-type: application/json\r\ncontent-length: 95\r\n\r\n\
        {\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32000,\"message\":\"too many connections; try later\"}}";
    if stream.try_write(FULL).is_ok() {
        tokio::spawn(async move {
            let _ = tokio::time::timeout(Duration::from_millis(100), stream.shutdown()).await;
        });
    }
}

async fn connection(stream: TcpStream, router: axum::Router, head: Duration, closing: CancellationToken) {
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    tokio::pin!(connection);
    tokio::select! {
        // A connection that breaks is the client's affair.
        _ = &mut connection => return,
        () = closing.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// Says whether only this machine can reach the address.
#[must_use]
pub fn is_local(address: &SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}
