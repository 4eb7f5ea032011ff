//! A client's connection, which reconnects when it is lost.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio_tungstenite::client_async_with_config;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::error::UrlError;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::{Error, Utf8Bytes};
use tokio_util::sync::CancellationToken;

use super::ClientOptions;
use super::state::{ClientState, HubMessage, HubRequest};
use crate::error::HubError;
use crate::lock;
use crate::outbox::Waiting;
use crate::socket::{MessageHandler, Pump, Socket, config};

/// Maximum time to establish a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Initial and maximum backoff before reconnecting.
const INITIAL_BACKOFF: Duration = Duration::from_millis(100);
const MAX_BACKOFF: Duration = Duration::from_secs(5);

/// Connects once.
pub(super) async fn open(options: &ClientOptions) -> Result<Socket, HubError> {
    let wrong = || HubError::Url { url: options.url.clone() };
    let failed = |source| HubError::Unreachable { url: options.url.clone(), source: Box::new(source) };
    let mut request = options.url.as_str().into_client_request().map_err(|_| wrong())?;
    let host = request.uri().host().filter(|_| request.uri().scheme_str() == Some("ws")).ok_or_else(wrong)?;
    let place = (host.trim_matches(['[', ']']).to_owned(), request.uri().port_u16().unwrap_or(80));
    if let Some(token) = &options.token {
        let value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| wrong())?;
        request.headers_mut().insert("authorization", value);
    }
    let connect = async {
        let stream = TcpStream::connect(place).await?;
        stream.set_nodelay(true)?;
        let config = config(&crate::Limits::default());
        let (socket, _) = client_async_with_config(request, stream, Some(config)).await?;
        Ok::<Socket, Error>(socket)
    };
    match tokio::time::timeout(CONNECT_TIMEOUT, connect).await {
        Ok(outcome) => outcome.map_err(failed),
        Err(_) => Err(failed(Error::Url(UrlError::UnableToConnect("no response in 10 s".to_owned())))),
    }
}

/// Keeps the connection open until the client is dropped.
pub(super) async fn keep(
    options: ClientOptions,
    book: Arc<Mutex<ClientState>>,
    socket: Socket,
    messages: Waiting,
    ended: CancellationToken,
) {
    let mut next = Some((socket, messages));
    let mut backoff = INITIAL_BACKOFF;
    loop {
        let work = async {
            match next.take() {
                Some((socket, messages)) => {
                    // Reconnect, however the connection ended.
                    let mut pump = Pump::new(socket, messages, Listener(&book), u32::MAX);
                    let _ = std::future::poll_fn(|context| pump.poll(context)).await;
                    lock(&book).on_disconnect();
                    backoff = INITIAL_BACKOFF;
                }
                None => {
                    tokio::time::sleep(backoff).await;
                    backoff = (backoff * 2).min(MAX_BACKOFF);
                    if let Ok(socket) = open(&options).await {
                        let messages = lock(&book).on_connect(&options.name);
                        next = Some((socket, messages));
                    }
                }
            }
        };
        tokio::select! {
            () = work => {}
            () = ended.cancelled() => return,
        }
    }
}

/// Handles messages from the hub.
struct Listener<'a>(&'a Mutex<ClientState>);

impl MessageHandler for Listener<'_> {
    fn on_messages(&mut self, messages: &[Utf8Bytes]) {
        let decoded: Vec<HubMessage> =
            messages.iter().filter_map(|text| serde_json::from_str(text).ok()).collect();
        // Handle the requests without the lock: hosts and handlers may call this client.
        let requests: Vec<HubRequest> = {
            let mut book = lock(self.0);
            decoded.into_iter().filter_map(|message| book.handle_message(message)).collect()
        };
        requests.into_iter().for_each(|request| request());
    }

    fn on_binary(&mut self) {}
}
