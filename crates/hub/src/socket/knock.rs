//! The HTTP request before the WebSocket: what is wanted, and whether it may be had.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::accept_hdr_async_with_config;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::{HeaderValue, StatusCode};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use super::Socket;
use crate::access::{Access, is_local_origin, same_secret};
use crate::channels::End;
use crate::hub::Shared;

/// What a connection is for.
#[derive(Debug)]
pub(super) enum Route {
    /// A worker; the value is what an auth function is told of the request.
    Worker(Value),
    Telemetry,
    Channel {
        id: String,
        key: String,
        end: End,
    },
}

pub(super) struct Knock;

impl Knock {
    /// Answers the request; gives the socket if it was let in.
    pub(super) async fn on(
        stream: TcpStream,
        access: &Access,
        shared: &Shared,
        config: WebSocketConfig,
    ) -> Result<(Socket, Route), Error> {
        let mut wanted = None;
        #[expect(clippy::result_large_err, reason = "the signature is that of the library")]
        let callback = |request: &Request, mut response: Response| match route(request, access, shared) {
            Ok(route) => {
                wanted = Some(route);
                // Some SDKs set the same on their side if they are told.
                let value = HeaderValue::from_static("tcp-nodelay");
                response.headers_mut().insert("x-iii-capabilities", value);
                Ok(response)
            }
            Err((status, text)) => {
                let mut response = ErrorResponse::new(Some(text.to_owned()));
                *response.status_mut() = status;
                Err(response)
            }
        };
        let socket = accept_hdr_async_with_config(stream, callback, Some(config)).await?;
        let route = wanted.ok_or(Error::ConnectionClosed)?;
        Ok((socket, route))
    }
}

type Refusal = (StatusCode, &'static str);

fn route(request: &Request, access: &Access, shared: &Shared) -> Result<Route, Refusal> {
    let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
    if header("origin").is_some_and(|origin| !is_local_origin(origin)) {
        return Err((StatusCode::FORBIDDEN, "pages of this origin may not connect"));
    }
    let query = pairs(request.uri().query().unwrap_or_default());
    let path = request.uri().path();
    if let Some(id) = path.strip_prefix("/ws/channels/") {
        return channel(id, &query, shared);
    }
    if let Some(token) = &access.token {
        let shown = header("authorization").and_then(|value| value.split_once(' '));
        let shown = shown.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        if !shown.is_some_and(|(_, shown)| same_secret(shown.trim(), token)) {
            return Err((StatusCode::UNAUTHORIZED, "show the token of this hub as a bearer token"));
        }
    }
    match path {
        "/" | "" => Ok(Route::Worker(described(request, &query))),
        "/otel" => Ok(Route::Telemetry),
        _ => Err((StatusCode::NOT_FOUND, "there is nothing here")),
    }
}

/// A channel's own key is enough: the SDKs show no token there.
fn channel(id: &str, query: &BTreeMap<String, Vec<String>>, shared: &Shared) -> Result<Route, Refusal> {
    let one = |name: &str| query.get(name).and_then(|values| values.first()).map_or("", String::as_str);
    let end = match one("dir") {
        "read" => End::Read,
        "write" => End::Write,
        _ => return Err((StatusCode::BAD_REQUEST, "dir must be read or write")),
    };
    let key = one("key");
    if !shared.channels.knows(id, key) {
        return Err((StatusCode::NOT_FOUND, "Channel not found"));
    }
    Ok(Route::Channel { id: id.to_owned(), key: key.to_owned(), end })
}

fn described(request: &Request, query: &BTreeMap<String, Vec<String>>) -> Value {
    let headers = request.headers().iter().filter_map(|(name, value)| {
        let text = value.to_str().ok()?;
        Some((name.as_str().to_owned(), Value::from(text)))
    });
    json!({ "headers": headers.collect::<serde_json::Map<_, _>>(), "query_params": query })
}

fn pairs(query: &str) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        found.entry(plain(name)).or_default().push(plain(value));
    }
    found
}

/// Text of a query without its escapes.
fn plain(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped = (*first == b'%').then(|| after.get(..2)).flatten();
        let code = escaped.and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok());
        rest = match code {
            Some(byte) => {
                bytes.push(byte);
                after.get(2..).unwrap_or_default()
            }
            None => {
                bytes.push(if *first == b'+' { b' ' } else { *first });
                after
            }
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
