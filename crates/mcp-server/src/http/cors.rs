//! What a browser wants to hear before a page of another origin may talk to this server.
//!
//! Only requests whose `Origin` was let in come here, so it can be given back as it is.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};

/// What pages may send when the browser does not say what they want to.
const HEADERS: &str = "authorization, content-type, accept, last-event-id, mcp-session-id, mcp-protocol-version, mcp-method, mcp-name";
/// What pages may read of an answer, beside its body.
const EXPOSED: &str = "mcp-session-id, mcp-protocol-version, www-authenticate, retry-after";
/// For how long the browser need not ask again, in seconds.
const LASTING: &str = "600";

/// Answers a browser that asks what it may do. It has no token yet, and learns nothing but that it may try.
pub(super) fn preflight(method: &Method, headers: &HeaderMap) -> Option<Response<Body>> {
    let origin = headers.get(header::ORIGIN)?.clone();
    if *method != Method::OPTIONS || !headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD) {
        return None;
    }
    // Parameters of tools may be headers too, so there is no list of all of them.
    let wanted = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS).cloned();
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let fields: [(HeaderName, HeaderValue); 3] = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE")),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, wanted.unwrap_or(HeaderValue::from_static(HEADERS))),
        (header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(LASTING)),
    ];
    response.headers_mut().extend(fields);
    allow(&mut response, Some(origin));
    Some(response)
}

/// Lets pages of this origin read the answer.
pub(super) fn allow(response: &mut Response<Body>, origin: Option<HeaderValue>) {
    let headers = response.headers_mut();
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    if let Some(origin) = origin {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
    }
}
