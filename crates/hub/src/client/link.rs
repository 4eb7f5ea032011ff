//! The connection of a client, made again when it is lost.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_tungstenite::client_async_with_config;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::error::UrlError;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Bytes, Error, Message};
use tokio_util::sync::CancellationToken;

use super::book::{Asked, Book, answer};
use super::{ClientOptions, lock};
use crate::error::HubError;
use crate::socket::Socket;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a lost connection rests, at first and at most.
const REST: Duration = Duration::from_millis(100);
const LONGEST_REST: Duration = Duration::from_secs(5);
/// How often the hub is asked for a sign of life, and when it counts as gone without one.
const PING: Duration = Duration::from_secs(20);
const SILENCE: Duration = Duration::from_secs(60);

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
        let size = crate::Limits::default().message_bytes;
        let config = WebSocketConfig::default().max_message_size(Some(size)).max_frame_size(Some(size));
        let (socket, _) = client_async_with_config(request, stream, Some(config)).await?;
        Ok::<Socket, Error>(socket)
    };
    match tokio::time::timeout(CONNECT, connect).await {
        Ok(outcome) => outcome.map_err(failed),
        Err(_) => Err(failed(Error::Url(UrlError::UnableToConnect("no answer in 10 s".to_owned())))),
    }
}

/// Keeps the connection until nobody needs it.
pub(super) async fn keep(
    options: ClientOptions,
    book: Arc<Mutex<Book>>,
    socket: Socket,
    messages: mpsc::UnboundedReceiver<String>,
    ended: CancellationToken,
) {
    let mut next = Some((socket, messages));
    let mut rest = REST;
    loop {
        let work = async {
            match next.take() {
                Some((socket, messages)) => {
                    // However it ended, it is made again.
                    let _ = serve(socket, messages, &book).await;
                    lock(&book).end();
                    rest = REST;
                }
                None => {
                    tokio::time::sleep(rest).await;
                    rest = (rest * 2).min(LONGEST_REST);
                    if let Ok(socket) = open(&options).await {
                        let messages = lock(&book).begin(&options.name);
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

async fn serve(
    mut socket: Socket,
    mut messages: mpsc::UnboundedReceiver<String>,
    book: &Mutex<Book>,
) -> Result<(), Error> {
    let mut ping = tokio::time::interval(PING);
    let mut heard = tokio::time::Instant::now();
    loop {
        tokio::select! {
            message = messages.recv() => {
                let Some(message) = message else { return Ok(()) };
                socket.feed(Message::text(message)).await?;
                // What waits is written in one go.
                while let Ok(message) = messages.try_recv() {
                    socket.feed(Message::text(message)).await?;
                }
                socket.flush().await?;
            }
            message = socket.next() => {
                heard = tokio::time::Instant::now();
                match message {
                    None | Some(Ok(Message::Close(_))) => return Ok(()),
                    Some(Err(error)) => return Err(error),
                    Some(Ok(Message::Text(text))) => {
                        let asked = lock(book).hear(&text);
                        if let Some(asked) = asked {
                            tokio::spawn(run(asked));
                        }
                    }
                    Some(Ok(Message::Ping(_))) => socket.flush().await?,
                    Some(Ok(_)) => {}
                }
            }
            _ = ping.tick() => {
                if heard.elapsed() > SILENCE {
                    return Ok(());
                }
                socket.send(Message::Ping(Bytes::new())).await?;
            }
        }
    }
}

/// Runs a function of this client; the answer goes where the call came from.
async fn run(asked: Asked) {
    let Asked { id, function, invocation, answers } = asked;
    let name = invocation.function_id.clone();
    let outcome = (function.handler)(invocation).await;
    // A lost connection takes its calls with it.
    let _ = answers.send(answer(id, &name, outcome));
}
