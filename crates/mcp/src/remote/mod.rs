//! Remote servers: streamable HTTP, and the legacy HTTP transport with server-sent events.
//!
//! Redirects are followed to the same origin only, so that headers and tokens are not sent to other servers.

mod client;
mod events;
mod sse;

use std::collections::{BTreeMap, HashMap};
use std::sync::Once;
use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{HeaderName, HeaderValue};
use reqwest::redirect::{Attempt, Policy};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;

use crate::config::Endpoint;
use crate::wire::MAX_MESSAGE;

pub(crate) use client::HttpClient;
pub(crate) use sse::{LegacySse, SseError};

const MAX_REDIRECTS: usize = 5;

/// Headers for every request to a server.
pub(crate) type Headers = HashMap<HeaderName, HeaderValue>;

/// Error that prevents any request to a server.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RemoteError {
    /// Invalid header.
    #[error("`headers.{0}` is not a valid header; check its name, and that its value is one line")]
    Header(String),
    /// Failure to create the HTTP client.
    #[error("cannot create the HTTP client")]
    Client(#[source] reqwest::Error),
}

/// Installs a cryptography provider for TLS, unless the host has installed one.
pub(crate) fn choose_tls() {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| {
        // This fails only if the host has already installed a provider, which is then used.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// Creates an HTTP client for one server.
pub(crate) fn http_client() -> Result<HttpClient, RemoteError> {
    choose_tls();
    let client = reqwest::Client::builder()
        .redirect(Policy::custom(follow_same_origin))
        .connect_timeout(Duration::from_secs(10))
        .tcp_nodelay(true)
        .build();
    client.map(HttpClient).map_err(RemoteError::Client)
}

fn follow_same_origin(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let keeps_method =
        matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    let same_origin =
        attempt.previous().first().is_some_and(|first| first.origin() == attempt.url().origin());
    match keeps_method && same_origin && attempt.previous().len() <= MAX_REDIRECTS {
        true => attempt.follow(),
        false => attempt.error("a redirect that leaves the server or changes the request"),
    }
}

pub(crate) fn headers(entries: &BTreeMap<String, String>) -> Result<Headers, RemoteError> {
    let parse = |(name, value): (&String, &String)| {
        let wrong = || RemoteError::Header(name.clone());
        let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
        let mut value = HeaderValue::from_str(value).map_err(|_| wrong())?;
        value.set_sensitive(true);
        Ok((header, value))
    };
    entries.iter().map(parse).collect()
}

/// Returns the config of the streamable HTTP transport for a server.
pub(crate) fn streamable(endpoint: &Endpoint) -> Result<StreamableHttpClientTransportConfig, RemoteError> {
    Ok(StreamableHttpClientTransportConfig::with_uri(endpoint.url.as_str())
        .custom_headers(headers(&endpoint.headers)?)
        .max_sse_event_size(MAX_MESSAGE)
        .reinit_on_expired_session(true))
}
