//! HTTP requests to providers, and classification of their failures.
//!
//! Nothing is retried or logged here, and the key is sent only in the provider's own header.

use std::time::Duration;

use meerkat_core::{ModelError, ModelErrorKind, Provider};
use meerkat_fetch::{Http, root_cause};
use reqwest::header::{CONTENT_TYPE, HeaderMap, LOCATION};
use serde_json::Value;

use crate::endpoint::Endpoint;
use crate::reader::refusal;
use crate::wire::{Wire, error};

/// Maximum number of bytes read from an error body.
const MAX_ERROR_BODY: usize = 64 * 1024;
/// Maximum number of characters of a redirect target in an error message.
const MAX_REDIRECT_TARGET: usize = 200;

/// A request to send.
pub(crate) struct Post<'a> {
    pub(crate) wire: &'a dyn Wire,
    pub(crate) endpoint: &'a Endpoint,
    /// Path below the base URL.
    pub(crate) path: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: &'a Value,
}

/// Sends a request; returns a successful response whose body has not been read.
pub(crate) async fn post(http: &Http, post: Post<'_>) -> Result<reqwest::Response, ModelError> {
    let provider = post.wire.provider();
    if !is_below(&post.path) {
        return Err(error(provider, ModelErrorKind::BadRequest, "the model name cannot be used in a URL"));
    }
    let client = http.client().map_err(|reason| error(provider, ModelErrorKind::Connection, reason))?;
    let url = format!("{}{}", post.endpoint.base_url, post.path);
    let mut call = client.post(url).header("content-type", "application/json");
    for (name, value) in post.headers {
        call = call.header(name, value);
    }
    let body = serde_json::to_vec(post.body).unwrap_or_default();
    let response = call.body(body).send().await;
    let response = response.map_err(|failure| broken(provider, post.endpoint, &failure))?;
    let (status, endpoint) = (response.status(), post.endpoint);
    tracing::debug!(%provider, status = status.as_u16(), "a provider responded");
    if status.is_redirection() {
        let target = redirect_target(&response);
        let what = format!("redirects{target}, which is not followed; set `base_url` to the provider's URL");
        return Err(wrong_url(provider, status.as_u16(), endpoint, &what));
    }
    if !status.is_success() {
        return Err(read_error(post.wire, response, endpoint).await);
    }
    if is_page(response.headers()) {
        let what = "returned a web page instead of a model response; check the `base_url`";
        return Err(wrong_url(provider, status.as_u16(), endpoint, what));
    }
    Ok(response)
}

/// Reads the next chunk of a body; a failure means that the response was cut off.
pub(crate) async fn chunk(
    provider: Provider,
    response: &mut reqwest::Response,
) -> Result<Option<impl AsRef<[u8]> + use<>>, ModelError> {
    response.chunk().await.map_err(|failure| {
        let timed_out = failure.is_timeout();
        let kind = if timed_out { ModelErrorKind::NetworkTimeout } else { ModelErrorKind::StreamCut };
        error(provider, kind, format!("the response was cut off: {}", root_cause(&failure)))
    })
}

/// Returns `true` if a path stays below the base URL: it may contain a model name, which can be any text.
fn is_below(path: &str) -> bool {
    let path = path.strip_suffix("?alt=sse").unwrap_or(path);
    path.split('/').all(|segment| segment != ".." && segment != ".")
        && path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._:/@~-".contains(&byte))
}

/// Returns `true` if the response is an HTML page: no provider sends one.
fn is_page(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "text/html" || kind == "application/xhtml+xml"
}

/// Creates the error for a base URL that does not lead to the API, so that a retry would not help.
fn wrong_url(provider: Provider, status: u16, endpoint: &Endpoint, what: &str) -> ModelError {
    let message = format!("HTTP {status}: {} {what}", endpoint.redacted_base_url());
    ModelError { status: Some(status), ..error(provider, ModelErrorKind::BadRequest, message) }
}

/// Returns ` to URL`, without a query. Following a redirect would send the key to a server that the response chooses.
fn redirect_target(response: &reqwest::Response) -> String {
    let target = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let target = target.and_then(|target| response.url().join(target).ok()).map(|url| {
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        format!(" to {}://{}{port}{}", url.scheme(), url.host_str().unwrap_or_default(), url.path())
    });
    target.unwrap_or_default().chars().take(MAX_REDIRECT_TARGET).collect()
}

async fn read_error(wire: &dyn Wire, mut response: reqwest::Response, endpoint: &Endpoint) -> ModelError {
    let status = response.status().as_u16();
    let wait = retry_after(response.headers());
    let mut text = Vec::new();
    while text.len() < MAX_ERROR_BODY
        && let Ok(Some(chunk)) = response.chunk().await
    {
        text.extend_from_slice(&chunk);
    }
    let text = without(&String::from_utf8_lossy(&text), endpoint.key.expose());
    refusal(wire, status, wait, &text)
}

/// Removes the key from an error text: some servers repeat the request that they reject.
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
    error(provider, kind, format!("cannot reach {}: {}", endpoint.redacted_base_url(), root_cause(failure)))
}

/// Reads the delay that the provider requests, in any of the formats providers use.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let millis = text("retry-after-ms").and_then(|text| text.parse::<f64>().ok()).map(|ms| ms / 1000.0);
    let seconds = || text("retry-after").and_then(|text| text.parse::<f64>().ok());
    // A date is relative to the server's clock, which may differ from ours.
    let until_date = || Some(http_date(text("retry-after")?)? - http_date(text("date")?)?);
    let seconds = millis.or_else(seconds).or_else(until_date)?;
    (0.0..86_400.0).contains(&seconds).then(|| Duration::from_secs_f64(seconds))
}

/// Parses an HTTP date, in seconds.
fn http_date(text: &str) -> Option<f64> {
    let date = jiff::fmt::rfc2822::parse(text).ok()?;
    Some(date.timestamp().as_second() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_accepts_all_formats() {
        type Pairs = &'static [(&'static str, &'static str)];
        let delay = |pairs: Pairs| {
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
            assert_eq!(delay(pairs), expected, "{pairs:?}");
        }
    }

    #[test]
    fn model_name_cannot_escape_base_url() {
        let good =
            ["/v1/messages", "/v1beta/models/gemini-3:streamGenerateContent?alt=sse", "/v1/tuned/a_b~1@2:x"];
        let bad =
            ["/v1/../x", "/v1/./x", "/v1/a?b=:c", "/v1/a#b", "/v1/a%2e", "/v1/a b", "/v1/a\\b", "/v1/ä"];
        assert_eq!((good.map(is_below), bad.map(is_below)), ([true; 3], [false; 8]));
    }

    #[test]
    fn repeated_key_is_redacted() {
        assert_eq!(without("bad key sk-1: sk-1", "sk-1"), "bad key [key]: [key]");
        assert_eq!(without("nothing", ""), "nothing");
    }
}
