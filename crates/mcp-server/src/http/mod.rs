//! MCP over streamable HTTP, for any number of clients.
//!
//! The SDK implements the protocol; this module adds access control, limits, and shutdown in front of it. Connections,
//! sessions, bodies, and streams are all bounded, so that no client can lock out the others.

mod access_log;
mod bodies;
mod client_stream;
mod cors;
mod deferred;
mod frontend;
mod guard;
mod listen;
mod probes;
mod refusals;
mod replay;
mod session;
mod sessions;
mod token;
mod unread;

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::protocol::{Protocol, Service};
use access_log::Peer;
use bodies::Bodies;
use frontend::Frontend;
pub use guard::{Access, AccessError, Token};
pub use listen::{Listen, ListenError};
use probes::Readiness;
use refusals::Refusals;
use sessions::Sessions;
pub use token::{ClientToken, TokenOptions};
use unread::ReadingClient;

/// Resource limits of the server.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Maximum length of a request body in bytes.
    pub body: usize,
    /// Maximum number of bytes in all unfinished bodies together; requests over it are rejected. The first 8 KiB of
    /// each body do not count.
    pub bodies: usize,
    /// Maximum number of open connections; lower if the system allows fewer open files.
    pub connections: usize,
    /// Maximum number of sessions. At the limit, a new session evicts an idle one.
    pub sessions: usize,
    /// Time after which a session without requests or streams expires.
    pub idle: Duration,
    /// Time allowed for a client to send the headers of each request.
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

/// Time after which a connection is closed whose client reads nothing of what is sent.
const UNREAD_TIMEOUT: Duration = Duration::from_secs(120);
/// Delay after which the response to a slow call is started before its result is available.
const DEFER_DELAY: Duration = Duration::from_millis(500);
/// Interval of keep-alive comments on an idle stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Time allowed for open connections to close on shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(700);
/// Number of files reserved for other purposes: the store, the log, and the system.
const OTHER_FILES: u64 = 128;
/// Number of files without which the store cannot be opened.
const MIN_FILES: u64 = 64;
/// Time to wait for a connection to reject when no more can be accepted.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);
/// Minimum interval between two log lines about connections that cannot be accepted.
const REPEAT_INTERVAL: Duration = Duration::from_secs(60);

type Connected = (TcpStream, SocketAddr);

/// Serves the protocol until `closing` is cancelled. Then waits for `last_work`, which should stop active runs, and for
/// the responses to be sent.
pub async fn serve<S: Service>(
    layer: Protocol<S>,
    listener: TcpListener,
    access: Access,
    limits: Limits,
    closing: CancellationToken,
    last_work: impl Future<Output = ()>,
) {
    let ended = CancellationToken::new();
    let sessions = Sessions::new(limits.sessions, limits.idle);
    let expiry =
        tokio::spawn(ended.clone().run_until_cancelled_owned(sessions::expire(Arc::clone(&sessions))));
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .with_sse_keep_alive(Some(KEEP_ALIVE))
        // The first event of a stream, with its retry hint, depends on the session.
        .with_sse_retry(None)
        .with_max_request_body_bytes(limits.body)
        .with_cancellation_token(ended.clone());
    let (protocol, log) = (layer.clone(), layer.clone());
    let mcp = StreamableHttpService::new(move || Ok(layer.connect()), Arc::clone(&sessions), config);
    let (bodies, readiness) = (Bodies::new(limits.body, limits.bodies), Readiness::new(closing.clone()));
    let refusals = Arc::new(Refusals::default());
    let refused = Arc::clone(&refusals);
    let router = Frontend { mcp, sessions, access, bodies, readiness, refusals, protocol }.router();
    let capacity = connections(limits.connections);
    let open = Arc::new(Semaphore::new(capacity));
    let admit = |accepted| admit(accepted, &router, (&open, &refused), limits.head, &closing);
    closing.run_until_cancelled(accept(|| listener.accept(), admit, &|line| log.service().log(line))).await;
    drop(listener);
    last_work.await;
    // The last responses may still be in transit; after that, streams that never end are closed.
    let all = u32::try_from(capacity).unwrap_or(u32::MAX);
    if timeout(SHUTDOWN_TIMEOUT / 2, open.acquire_many(all)).await.is_err() {
        ended.cancel();
        let _ = timeout(SHUTDOWN_TIMEOUT / 2, open.acquire_many(all)).await;
    }
    ended.cancel();
    let _ = expiry.await;
}

/// Raises the limit of open files to the system's maximum: each connection uses one.
pub(crate) fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        // If the system denies it, fewer connections are possible.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}

/// Checks that the system allows enough open files. Returns a warning if it allows fewer connections than `wanted`.
pub(crate) fn check_file_limit(wanted: usize) -> Result<Option<String>, ListenError> {
    let files = file_limit();
    if files < MIN_FILES {
        return Err(ListenError::Files { files, needed: MIN_FILES });
    }
    let clients = connections(wanted);
    Ok((clients < wanted).then(|| {
        format!(
            "warning: the system allows {files} open files, so at most {clients} clients can connect at a time instead \
             of {wanted}; raise the limit (`ulimit -n`)"
        )
    }))
}

fn file_limit() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Returns the number of connections that the open-file limit allows, up to `wanted`.
fn connections(wanted: usize) -> usize {
    let capacity = usize::try_from(file_limit().saturating_sub(OTHER_FILES)).unwrap_or(usize::MAX);
    wanted.min(capacity.max(1)).min(Semaphore::MAX_PERMITS)
}

/// Accepts connections, forever.
async fn accept<Accepted: Future<Output = io::Result<Connected>>>(
    next: impl Fn() -> Accepted,
    admit: impl Fn(Connected),
    log: &(impl Fn(&str) + Sync),
) {
    let (mut spare, mut logged) = (None, None::<Instant>);
    loop {
        spare = spare.or_else(|| File::open("/dev/null").ok());
        let error = match next().await {
            Ok(accepted) => {
                admit(accepted);
                continue;
            }
            Err(error) => error,
        };
        if logged.is_none_or(|at| at.elapsed() >= REPEAT_INTERVAL) {
            log(&format!("warning: cannot accept connections: {error}; rejecting clients"));
            logged = Some(Instant::now());
        }
        // Out of files: the spare one is closed, so that a client can be rejected instead of waiting.
        drop(spare.take());
        match timeout(ACCEPT_RETRY, next()).await {
            Ok(Ok((stream, _))) => reject(stream),
            Ok(Err(_)) => sleep(ACCEPT_RETRY).await,
            Err(_) => {}
        }
    }
}

/// Serves a connection, or rejects it if too many are open.
fn admit(
    (stream, address): Connected,
    router: &axum::Router,
    (open, refusals): (&Arc<Semaphore>, &Refusals),
    head: Duration,
    closing: &CancellationToken,
) {
    // Responses are small and must not wait for a full packet.
    let _ = stream.set_nodelay(true);
    let Ok(permit) = Arc::clone(open).try_acquire_owned() else {
        refusals.add(StatusCode::SERVICE_UNAVAILABLE, Some(address));
        return reject(stream);
    };
    let serving = connection((stream, address), router.clone(), head, closing.clone());
    tokio::spawn(async move {
        serving.await;
        drop(permit);
    });
}

/// Rejects a connection over the limit.
fn reject(mut stream: TcpStream) {
    const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\nconnection: close\r\n\
        content-type: application/json\r\ncontent-length: 95\r\n\r\n\
        {\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32000,\"message\":\"too many connections; try later\"}}";
    if stream.try_write(FULL).is_ok() {
        tokio::spawn(async move {
            let _ = timeout(Duration::from_millis(100), stream.shutdown()).await;
        });
    }
}

async fn connection(
    (stream, address): Connected,
    router: axum::Router,
    head: Duration,
    closing: CancellationToken,
) {
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Peer(address));
        router.call(request)
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head)
        .serve_connection(TokioIo::new(ReadingClient::new(stream, UNREAD_TIMEOUT)), service);
    tokio::pin!(connection);
    tokio::select! {
        // A broken connection is not an error of the server.
        _ = &mut connection => return,
        () = closing.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// Returns `true` if only this machine can reach the address.
#[must_use]
pub fn is_local(address: &SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn failures_to_accept_are_retried_after_a_pause() {
        let (attempts, lines) = (Cell::new(0), std::sync::Mutex::new(Vec::new()));
        let next = || {
            attempts.set(attempts.get() + 1);
            std::future::ready(Err(io::Error::from(rustix::io::Errno::MFILE)))
        };
        let log = |line: &str| lines.lock().unwrap().push(line.to_owned());
        let accepting = accept(next, |_| unreachable!(), &log);
        assert!(timeout(10 * ACCEPT_RETRY, accepting).await.is_err());
        assert!(attempts.get() <= 22, "{attempts:?}");
        assert_eq!(lines.lock().unwrap().len(), 1);
    }
}
