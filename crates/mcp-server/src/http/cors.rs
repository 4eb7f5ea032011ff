//! CORS responses for pages of other origins.
//!
//! Only requests with an allowed `Origin` get here, so the origin can be echoed.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};

/// Headers that pages may send, if the browser does not name any.
const HEADERS: &str = "authorization, content-type, accept, last-event-id, mcp-session-id, mcp-protocol-version, mcp-method, mcp-name";
/// Response headers that pages may read.
const EXPOSED: &str = "mcp-session-id, mcp-protocol-version, www-authenticate, retry-after";
/// Seconds for which the browser may cache a preflight response.
const MAX_AGE: &str = "600";

/// Answers a preflight request, which carries no token. The response reveals only that the page may send requests.
pub(super) fn preflight(method: &Method, headers: &HeaderMap) -> Option<Response<Body>> {
    let origin = headers.get(header::ORIGIN)?.clone();
    if *method != Method::OPTIONS || !headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD) {
        return None;
    }
    // Tool parameters may be sent as headers too, so there is no fixed list.
    let wanted = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS).cloned();
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let fields: [(HeaderName, HeaderValue); 3] = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE")),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, wanted.unwrap_or(HeaderValue::from_static(HEADERS))),
        (header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(MAX_AGE)),
    ];
    response.headers_mut().extend(fields);
    allow(&mut response, Some(origin));
    Some(response)
}

/// Allows pages of this origin to read the response.
pub(super) fn allow(response: &mut Response<Body>, origin: Option<HeaderValue>) {
    let headers = response.headers_mut();
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    if let Some(origin) = origin {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
    }
}
