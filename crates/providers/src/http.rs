//! One HTTP call: made, and every way it can be refused sorted.
//!
//! Nothing is retried here, nothing is logged, and the key leaves only in the provider's own header.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use meerkat_core::{ModelError, ModelErrorKind, Provider};
use reqwest::header::{CONTENT_TYPE, HeaderMap, LOCATION};
use serde_json::Value;

use crate::endpoint::Endpoint;
use crate::reader::{ReadRefusal, Refused, refusal};
use crate::wire::error;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(15);
/// How much of an error's body is read.
const MAX_ERROR_BODY: usize = 64 * 1024;
/// How much of where a redirect leads is shown.
const MAX_PLACE: usize = 200;

/// An HTTP client that is made when it is first needed and then shared.
#[derive(Clone, Default)]
pub struct Http {
    client: Arc<OnceLock<Result<reqwest::Client, String>>>,
}

/// A call to make.
pub(crate) struct Post<'a> {
    pub(crate) provider: Provider,
    pub(crate) endpoint: &'a Endpoint,
    /// Where it goes, below the base URL.
    pub(crate) path: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: &'a Value,
}

impl Http {
    /// Makes one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a call; what comes back is a success whose body is still to be read.
    pub(crate) async fn post(
        &self,
        post: Post<'_>,
        read: ReadRefusal<'_>,
    ) -> Result<reqwest::Response, ModelError> {
        let provider = post.provider;
        if !is_below(&post.path) {
            return Err(error(
                provider,
                ModelErrorKind::BadRequest,
                "the name of the model cannot be used in an address",
            ));
        }
        let client = self.get().map_err(|reason| error(provider, ModelErrorKind::Connection, reason))?;
        let url = format!("{}{}", post.endpoint.base_url, post.path);
        let mut call = client.post(url).header("content-type", "application/json");
        for (name, value) in post.headers {
            call = call.header(name, value);
        }
        let body = serde_json::to_vec(post.body).unwrap_or_default();
        let response = call.body(body).send().await;
        let response = response.map_err(|failure| broken(provider, post.endpoint, &failure))?;
        tracing::debug!(%provider, status = response.status().as_u16(), "a provider answered");
        if response.status().is_redirection() {
            return Err(redirected(provider, &response, post.endpoint));
        }
        if !response.status().is_success() {
            return Err(refused(provider, response, post.endpoint, read).await);
        }
        if is_page(response.headers()) {
            return Err(paged(provider, &response, post.endpoint));
        }
        Ok(response)
    }

    pub(crate) fn get(&self) -> Result<&reqwest::Client, String> {
        let build = || {
            // Another part of the program may have chosen already; either choice will do.
            let _ = rustls::crypto::ring::default_provider().install_default();
            reqwest::Client::builder()
                .connect_timeout(CONNECT)
                .tcp_nodelay(true)
                .redirect(reqwest::redirect::Policy::none())
                .build()
                .map_err(|error| error.to_string())
        };
        self.client.get_or_init(build).as_ref().map_err(Clone::clone)
    }
}

/// Reads more of a body; a failure is an answer that broke off.
pub(crate) async fn chunk(
    provider: Provider,
    response: &mut reqwest::Response,
) -> Result<Option<impl AsRef<[u8]> + use<>>, ModelError> {
    response.chunk().await.map_err(|failure| {
        let timed_out = failure.is_timeout();
        let kind = if timed_out { ModelErrorKind::NetworkTimeout } else { ModelErrorKind::StreamCut };
        error(provider, kind, format!("the answer broke off: {}", root(&failure)))
    })
}

/// Says whether a path stays below the base URL: it may hold the name of a model, which anybody may have chosen.
fn is_below(path: &str) -> bool {
    let path = path.strip_suffix("?alt=sse").unwrap_or(path);
    path.split('/').all(|segment| segment != ".." && segment != ".")
        && path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._:/@~-".contains(&byte))
}

/// Says whether what came is a page for people: no provider answers with one.
fn is_page(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "text/html" || kind == "application/xhtml+xml"
}

/// A page instead of an answer: the address is wrong, and asking again would not change that.
fn paged(provider: Provider, response: &reqwest::Response, endpoint: &Endpoint) -> ModelError {
    let status = response.status().as_u16();
    let message = format!(
        "HTTP {status}: {} answers with a web page, not as a model does; check the `base_url`",
        endpoint.shown()
    );
    ModelError { status: Some(status), ..error(provider, ModelErrorKind::BadRequest, message) }
}

/// The provider is somewhere else. Following would take the key to wherever the answer says.
fn redirected(provider: Provider, response: &reqwest::Response, endpoint: &Endpoint) -> ModelError {
    let status = response.status().as_u16();
    let place = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let place = place.and_then(|place| response.url().join(place).ok()).map(|url| {
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        format!(" to {}://{}{port}{}", url.scheme(), url.host_str().unwrap_or_default(), url.path())
    });
    let place: String = place.unwrap_or_default().chars().take(MAX_PLACE).collect();
    let message = format!(
        "HTTP {status}: {} redirects{place}, where the key is not taken; set the `base_url` to where the provider is",
        endpoint.shown()
    );
    ModelError { status: Some(status), ..error(provider, ModelErrorKind::BadRequest, message) }
}

async fn refused(
    provider: Provider,
    mut response: reqwest::Response,
    endpoint: &Endpoint,
    read: ReadRefusal<'_>,
) -> ModelError {
    let status = response.status().as_u16();
    let wait = retry_after(response.headers());
    let mut text = Vec::new();
    while text.len() < MAX_ERROR_BODY {
        match response.chunk().await {
            Ok(Some(chunk)) => text.extend_from_slice(&chunk),
            Ok(None) | Err(_) => break,
        }
    }
    let text = without(&String::from_utf8_lossy(&text), endpoint.key.expose());
    refusal(&Refused { provider, status, wait, text: &text }, read)
}

/// Takes the key out of what a server says: some repeat the request that they refuse.
fn without(text: &str, key: &str) -> String {
    if key.is_empty() { text.to_owned() } else { text.replace(key, "[key]") }
}

fn broken(provider: Provider, endpoint: &Endpoint, failure: &reqwest::Error) -> ModelError {
    let kind = if failure.is_timeout() {
        ModelErrorKind::NetworkTimeout
    } else if failure.is_builder() {
        ModelErrorKind::BadRequest
    } else {
        ModelErrorKind::Connection
    };
    error(provider, kind, format!("{} cannot be reached: {}", endpoint.shown(), root(failure)))
}

/// Returns the innermost cause; the outer ones repeat the URL, which may hold what is not ours to show.
pub(crate) fn root(failure: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = failure;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// Reads how long the provider asks us to wait, in any of the ways providers say it.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let millis = text("retry-after-ms").and_then(|text| text.parse::<f64>().ok()).map(|ms| ms / 1000.0);
    let seconds = || text("retry-after").and_then(|text| text.parse::<f64>().ok());
    // A moment is counted from the server's own clock, which need not agree with ours.
    let moment = || Some(moment(text("retry-after")?)? - moment(text("date")?)?);
    let seconds = millis.or_else(seconds).or_else(moment)?;
    (seconds.is_finite() && (0.0..86_400.0).contains(&seconds)).then(|| Duration::from_secs_f64(seconds))
}

/// Reads a moment as HTTP writes it, in seconds.
fn moment(text: &str) -> Option<f64> {
    let moment = jiff::fmt::rfc2822::parse(text).ok()?;
    Some(moment.timestamp().as_second() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_read_as_seconds_milliseconds_and_moments() {
        type Pairs = &'static [(&'static str, &'static str)];
        let asked = |pairs: Pairs| {
            let headers = pairs.iter().map(|(name, value)| {
                (
                    reqwest::header::HeaderName::from_static(name),
                    reqwest::header::HeaderValue::from_static(value),
                )
            });
            retry_after(&headers.collect())
        };
        const DATE: (&str, &str) = ("date", "Mon, 16 Nov 2026 03:00:00 GMT");
        let cases: [(Pairs, Option<Duration>); 7] = [
            (&[("retry-after", "7")], Some(Duration::from_secs(7))),
            (&[("retry-after-ms", "250"), ("retry-after", "7")], Some(Duration::from_millis(250))),
            (&[("retry-after", "Mon, 16 Nov 2026 03:01:30 GMT"), DATE], Some(Duration::from_secs(90))),
            (&[("retry-after", "Mon, 16 Nov 2026 02:00:00 GMT"), DATE], None),
            (&[("retry-after", "Mon, 16 Nov 2026 03:01:30 GMT")], None),
            (&[("retry-after", "soon"), DATE], None),
            (&[], None),
        ];
        for (pairs, expected) in cases {
            assert_eq!(asked(pairs), expected, "{pairs:?}");
        }
    }

    #[test]
    fn a_name_of_a_model_leads_nowhere_else() {
        let good =
            ["/v1/messages", "/v1beta/models/gemini-3:streamGenerateContent?alt=sse", "/v1/tuned/a_b~1@2:x"];
        let bad =
            ["/v1/../x", "/v1/./x", "/v1/a?b=:c", "/v1/a#b", "/v1/a%2e", "/v1/a b", "/v1/a\\b", "/v1/ä"];
        assert_eq!((good.map(is_below), bad.map(is_below)), ([true; 3], [false; 8]));
    }

    #[test]
    fn a_key_that_is_repeated_is_not_shown() {
        assert_eq!(without("bad key sk-1: sk-1", "sk-1"), "bad key [key]: [key]");
        assert_eq!(without("nothing", ""), "nothing");
    }
}
