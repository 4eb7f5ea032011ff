//! The HTTP request before the WebSocket: routing and authorization.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::accept_hdr_async_with_config;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::{HeaderMap, HeaderValue, StatusCode};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use super::Socket;
use crate::access::{Access, same_secret};
use crate::channels::End;
use crate::hub::Shared;

/// Purpose of a connection.
#[derive(Debug)]
pub(super) enum Route {
    /// A worker; the value describes the request to an auth function.
    Worker(Value),
    Telemetry,
    Channel {
        id: String,
        key: String,
        end: End,
    },
}

/// Responds to the request; returns the socket if it was admitted.
pub(super) async fn accept(
    stream: TcpStream,
    access: &Access,
    shared: &Shared,
    config: WebSocketConfig,
) -> Result<(Socket, Route), Error> {
    let ends = stream.local_addr().and_then(|server| Ok((server, stream.peer_addr()?))).ok();
    let is_same_user = || ends.is_some_and(|(server, client)| meerkat_process::is_same_user(server, client));
    let mut wanted = None;
    #[expect(clippy::result_large_err, reason = "the signature is that of the library")]
    let callback =
        |request: &Request, mut response: Response| match route(request, access, shared, &is_same_user) {
            Ok(route) => {
                wanted = Some(route);
                // Some SDKs set the same option on their side when they receive this header.
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
type Rejection = (StatusCode, &'static str);

fn route(
    request: &Request,
    access: &Access,
    shared: &Shared,
    is_same_user: &dyn Fn() -> bool,
) -> Result<Route, Rejection> {
    let is_allowed = |origin: &HeaderValue| access.origins.iter().any(|allowed| origin == allowed.as_str());
    if !request.headers().get_all("origin").iter().all(is_allowed) {
        return Err((StatusCode::FORBIDDEN, "pages of this origin may not connect"));
    }
    let query = pairs(request.uri().query().unwrap_or_default());
    let path = request.uri().path();
    if let Some(id) = path.strip_prefix("/ws/channels/") {
        return channel(id, &query, shared);
    }
    let admitted = access.token.as_deref().is_none_or(|token| {
        let is_trusted = access.admit_same_user && is_direct(request.headers()) && is_same_user();
        is_trusted || has_token(request.headers(), token)
    });
    if !admitted {
        return Err((StatusCode::UNAUTHORIZED, "send the hub's token as a bearer token"));
    }
    match path {
        "/" | "" => Ok(Route::Worker(describe_request(request, &query))),
        "/otel" => Ok(Route::Telemetry),
        _ => Err((StatusCode::NOT_FOUND, "not found")),
    }
}

/// Returns `true` if the request carries the token.
fn has_token(headers: &HeaderMap, token: &str) -> bool {
    let value = headers.get("authorization").and_then(|value| value.to_str().ok());
    let value = value.and_then(|value| value.split_once(' '));
    let value = value.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    value.is_some_and(|(_, value)| same_secret(value.trim(), token))
}

/// Returns `true` if no header indicates that a proxy or tunnel of the user forwards the request for another machine.
fn is_direct(headers: &HeaderMap) -> bool {
    let marks = ["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip"];
    let host = headers.get("host").map_or("localhost", |host| host.to_str().unwrap_or_default());
    let name = host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok());
    let name = name.map_or(host, |(name, _)| name).trim_matches(['[', ']']);
    let is_local = name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    is_local && !marks.iter().any(|mark| headers.contains_key(*mark))
}

/// A channel's own key is sufficient: the SDKs send no token there.
fn channel(id: &str, query: &BTreeMap<String, Vec<String>>, shared: &Shared) -> Result<Route, Rejection> {
    let one = |name: &str| query.get(name).and_then(|values| values.first()).map_or("", String::as_str);
    let end = match one("dir") {
        "read" => End::Read,
        "write" => End::Write,
        _ => return Err((StatusCode::BAD_REQUEST, "dir must be read or write")),
    };
    let key = one("key");
    if !shared.services.channels.knows(id, key) {
        return Err((StatusCode::NOT_FOUND, "Channel not found"));
    }
    Ok(Route::Channel { id: id.to_owned(), key: key.to_owned(), end })
}

fn describe_request(request: &Request, query: &BTreeMap<String, Vec<String>>) -> Value {
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
        found.entry(decode(name)).or_default().push(decode(value));
    }
    found
}

/// Decodes percent escapes in a query.
fn decode(text: &str) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forwarded_requests_are_not_direct() {
        let headers = |pairs: &[(&'static str, &'static str)]| {
            let pairs = pairs.iter().map(|(name, value)| (*name, *value));
            pairs.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect::<HeaderMap>()
        };
        for host in ["localhost", "localhost:49134", "127.0.0.1:1", "[::1]:49134", "[::1]", "LocalHost"] {
            assert!(is_direct(&headers(&[("host", host)])), "{host}");
        }
        assert!(is_direct(&headers(&[])));
        for host in ["hub.example.com", "localhost.example.com:80", "10.0.0.1", ""] {
            assert!(!is_direct(&headers(&[("host", host)])), "{host}");
        }
        assert!(!is_direct(&headers(&[("host", "localhost"), ("x-forwarded-for", "192.0.2.1")])));
    }
}
