//! Entry point of every request: routes, access checks, limits, and readable errors.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use axum::routing::{any, get};
use meerkat::{excerpt, excerpt_message};
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, ProtocolVersion};
use rmcp::transport::streamable_http_server::StreamableHttpService;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::access_log::{AccessLine, Operation};
use super::bodies::{Bodies, BodyError};
use super::guard::{Access, Rejection};
use super::probes::{self, HEALTH, READY, Readiness};
use super::refusals::Refusals;
use super::sessions::{Batch, Sessions};
use super::{cors, deferred};
use crate::protocol::{Connection, InvalidMessage, Protocol, Service, batch, not_json};

/// Maximum length of an SDK error that is forwarded.
const MAX_REASON: usize = 4096;

/// HTTP frontend of the SDK.
pub(super) struct Frontend<S> {
    pub(super) mcp: StreamableHttpService<Connection<S>, Sessions>,
    pub(super) sessions: Arc<Sessions>,
    pub(super) access: Access,
    pub(super) bodies: Bodies,
    pub(super) readiness: Readiness,
    pub(super) refusals: Arc<Refusals>,
    pub(super) protocol: Protocol<S>,
}

/// Fields of a message that are read before it is decoded.
#[derive(Deserialize)]
struct Envelope {
    #[serde(default)]
    id: Value,
    method: Option<String>,
}

impl<S: Service> Frontend<S> {
    pub(super) fn router(self) -> Router {
        let front = Arc::new(self);
        Router::new()
            .route("/", any(index::<S>))
            .route(HEALTH, get(async || "alive\n"))
            .route(READY, get(ready::<S>))
            .route("/mcp", any(serve::<S>))
            .fallback(not_found)
            .layer(axum::middleware::from_fn_with_state(Arc::clone(&front), admit::<S>))
            .with_state(front)
    }

    /// Returns `true` if requests can be served.
    async fn is_ready(&self) -> bool {
        let protocol = self.protocol.clone();
        self.readiness.is_ready(async move { protocol.service().check_ready().await }).await
    }

    /// Reads a message and its envelope; a batch has no envelope.
    async fn message(&self, body: Body) -> Result<(Bytes, Option<Envelope>), Box<Response<Body>>> {
        let bytes = self.bodies.read(body).await.map_err(|problem| Box::new(body_error(&problem)))?;
        let envelope = match is_list(&bytes) {
            true => serde_json::from_slice::<IgnoredAny>(&bytes).map(|_| None),
            false => serde_json::from_slice::<Envelope>(&bytes).map(Some),
        };
        match envelope {
            Ok(envelope) => Ok((bytes, envelope)),
            Err(_) => {
                let InvalidMessage { id, code, reason } = InvalidMessage::new(&bytes);
                Err(Box::new(error(StatusCode::BAD_REQUEST, &id, code, &reason)))
            }
        }
    }

    /// Returns an error response if the stream that a client wants to resume is unknown.
    fn check_resume(&self, headers: &HeaderMap) -> Option<Response<Body>> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let (session, last) = (text("mcp-session-id")?, text("last-event-id")?);
        if self.sessions.can_resume(session, last) {
            return None;
        }
        let reason = format!(
            "the stream of event `{}` is unknown or has expired; repeat its request, or open a stream without \
             Last-Event-ID",
            excerpt(last)
        );
        Some(error(StatusCode::BAD_REQUEST, &Value::Null, -32600, &reason))
    }

    /// Forwards a request to the SDK.
    async fn handle(&self, request: Request, id: &Value) -> Response<Body> {
        with_json_error(self.mcp.handle(request).await.map(Body::new), id).await
    }

    /// Handles a batch. The SDK gets its first request, which carries the other messages with it.
    async fn handle_batch(&self, request: Request, bytes: &Bytes) -> Response<Body> {
        let reject = |status, reason: &str| error(status, &Value::Null, -32600, reason);
        let session = request.headers().get("mcp-session-id").and_then(|value| value.to_str().ok());
        let version = session.map(|session| self.sessions.version(session));
        if version == Some(None) {
            return reject(StatusCode::NOT_FOUND, "Not Found: Session not found");
        }
        let messages = match batch::read(bytes, version.flatten().as_ref()) {
            Ok(messages) => messages,
            Err(problem) => return reject(StatusCode::BAD_REQUEST, &problem.to_string()),
        };
        let (mut parts, _) = request.into_parts();
        let body =
            |message: &ClientJsonRpcMessage| Body::from(serde_json::to_vec(message).unwrap_or_default());
        let request = messages.iter().position(|message| matches!(message, JsonRpcMessage::Request(_)));
        if let Some(body) = request.and_then(|first| messages.get(first)).map(body) {
            parts.extensions.insert(Batch(Arc::new(messages)));
            return self.handle(Request::from_parts(parts, body), &Value::Null).await;
        }
        for message in &messages {
            let answer = self.handle(Request::from_parts(parts.clone(), body(message)), &Value::Null).await;
            if answer.status() != StatusCode::ACCEPTED {
                return answer;
            }
        }
        let mut accepted = Response::new(Body::empty());
        *accepted.status_mut() = StatusCode::ACCEPTED;
        accepted
    }
}

fn is_list(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().first() == Some(&b'[')
}

/// Checks access, and lets pages of allowed origins read the response.
async fn admit<S: Service>(
    State(front): State<Arc<Frontend<S>>>,
    request: Request,
    next: axum::middleware::Next,
) -> Response<Body> {
    if [HEALTH, READY].contains(&request.uri().path()) {
        return next.run(request).await;
    }
    let line = AccessLine::new(&request);
    let (client, is_index) = (line.client(), request.uri().path() == "/");
    let response = checked(&front, request, next).await;
    // The page also reports whether the server is ready.
    if !is_index {
        front.refusals.add(response.status(), client);
    }
    line.follow(response)
}

async fn checked<S: Service>(
    front: &Frontend<S>,
    request: Request,
    next: axum::middleware::Next,
) -> Response<Body> {
    let (uri, headers) = (request.uri(), request.headers());
    if let Err(rejection) = front.access.check_source(uri, headers) {
        return rejection_response(rejection);
    }
    if let Some(answer) = cors::preflight(request.method(), headers) {
        return answer;
    }
    let origin = headers.get(header::ORIGIN).cloned();
    let token = if uri.path() == "/" { Ok(()) } else { front.access.check_token(headers) };
    let mut response = match token {
        Ok(()) => next.run(request).await,
        Err(rejection) => rejection_response(rejection),
    };
    cors::allow(&mut response, origin);
    response
}

/// Handles a protocol request.
async fn serve<S: Service>(State(front): State<Arc<Frontend<S>>>, request: Request) -> Response<Body> {
    if request.method() != Method::POST {
        if let Some(rejection) = front.check_resume(request.headers()) {
            return rejection;
        }
        let is_delete = request.method() == Method::DELETE;
        let mut answer = front.handle(request, &Value::Null).await;
        if is_delete && answer.status() == StatusCode::ACCEPTED {
            // The session is already closed, and some clients treat any other status as a failure.
            *answer.status_mut() = StatusCode::NO_CONTENT;
        }
        return answer;
    }
    let (parts, body) = request.into_parts();
    let (bytes, envelope) = match front.message(body).await {
        Ok(message) => message,
        Err(rejection) => return *rejection,
    };
    let Some(envelope) = envelope else {
        return front.handle_batch(Request::from_parts(parts, Body::empty()), &bytes).await;
    };
    if envelope.method.as_deref() == Some("initialize") && !front.sessions.make_room() {
        let reason = "too many sessions, all in use; try again later";
        let mut full = error(StatusCode::SERVICE_UNAVAILABLE, &envelope.id, -32000, reason);
        full.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("30"));
        return full;
    }
    let is_slow = may_be_slow(&parts.headers, envelope.method.as_deref());
    let operation = Operation::read(envelope.method.as_deref(), &bytes);
    let request = Request::from_parts(parts, Body::from(bytes));
    let answer = Box::pin(async move { front.handle(request, &envelope.id).await });
    let mut answer = if is_slow { deferred::answer(answer).await } else { answer.await };
    if let Some(operation) = operation {
        answer.extensions_mut().insert(operation);
    }
    answer
}

/// Returns `true` if the response may take long and may be started early. In a session, the SDK responds immediately,
/// and its status and headers matter.
fn may_be_slow(headers: &HeaderMap, method: Option<&str>) -> bool {
    let version = headers.get("mcp-protocol-version").map(HeaderValue::as_bytes);
    version.is_some_and(|version| version >= ProtocolVersion::V_2026_07_28.as_str().as_bytes())
        && matches!(method, Some("tools/call" | "prompts/get" | "resources/read"))
}

/// Serves a short description for humans. It needs no token, so it reveals neither the version nor what is wrong.
async fn index<S: Service>(State(front): State<Arc<Frontend<S>>>) -> Response<Body> {
    let (status, note) = match front.is_ready().await {
        true => (StatusCode::OK, ""),
        false => {
            (StatusCode::SERVICE_UNAVAILABLE, "\nIt cannot serve requests now; its log has the reason.\n")
        }
    };
    let text = format!(
        "{}\n\nThis is an MCP server. Point your MCP client at /mcp.\n{note}",
        front.protocol.service().about().title
    );
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// Serves the probe for readiness.
async fn ready<S: Service>(State(front): State<Arc<Frontend<S>>>) -> (StatusCode, &'static str) {
    probes::response(front.is_ready().await)
}

async fn not_found() -> Response<Body> {
    error(StatusCode::NOT_FOUND, &Value::Null, -32601, "not found; the MCP endpoint is /mcp")
}

/// Converts a plain-text error of the SDK to a JSON-RPC error.
async fn with_json_error(response: Response<Body>, id: &Value) -> Response<Body> {
    let json = response.headers().get(header::CONTENT_TYPE);
    let json = json.is_some_and(|value| value.as_bytes().starts_with(b"application/json"));
    let mut status = response.status();
    if json || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let (parts, body) = response.into_parts();
    let reason = to_bytes(body, MAX_REASON).await.unwrap_or_default();
    let mut reason = String::from_utf8_lossy(&reason).into_owned();
    let mut code = if status.is_server_error() { -32603 } else { -32600 };
    // The SDK's error for every body that is not a message, even if other JSON libraries accept it.
    if let Some(problem) = reason.strip_prefix("fail to deserialize request body ") {
        status = StatusCode::BAD_REQUEST;
        // Only errors of syntax have a position.
        (code, reason) = match problem.contains(" at line ") {
            true => (-32700, not_json(problem)),
            false => (-32600, InvalidMessage::NOT_A_MESSAGE.to_owned()),
        };
    }
    let mut converted = error(status, id, code, &excerpt_message(&reason));
    for name in [header::ALLOW, header::RETRY_AFTER] {
        if let Some(value) = parts.headers.get(&name) {
            converted.headers_mut().insert(name, value.clone());
        }
    }
    converted
}

fn rejection_response(rejection: Rejection) -> Response<Body> {
    let (status, reason) = match rejection {
        Rejection::AbsoluteUri => {
            (StatusCode::BAD_REQUEST, "send only the path, such as /mcp, and the host in the Host header")
        }
        Rejection::RepeatedHost => (StatusCode::BAD_REQUEST, "send one Host header"),
        Rejection::Host => (StatusCode::FORBIDDEN, "this Host is not allowed"),
        Rejection::Origin => (StatusCode::FORBIDDEN, "this Origin is not allowed"),
        Rejection::NoToken => (StatusCode::UNAUTHORIZED, "a bearer token is required"),
        Rejection::WrongToken => (StatusCode::UNAUTHORIZED, "invalid bearer token"),
    };
    let mut response = error(status, &Value::Null, -32600, reason);
    let challenge = match rejection {
        Rejection::AbsoluteUri | Rejection::RepeatedHost | Rejection::Host | Rejection::Origin => {
            return response;
        }
        Rejection::NoToken => "Bearer realm=\"meerkat\"",
        Rejection::WrongToken => "Bearer realm=\"meerkat\", error=\"invalid_token\"",
    };
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    response
}

/// Returns the error response for a body that could not be read.
fn body_error(problem: &BodyError) -> Response<Body> {
    let status = match problem {
        BodyError::TooLong(_) => StatusCode::PAYLOAD_TOO_LARGE,
        BodyError::Broken => StatusCode::BAD_REQUEST,
        BodyError::TooSlow => StatusCode::REQUEST_TIMEOUT,
        BodyError::TooMany => StatusCode::SERVICE_UNAVAILABLE,
    };
    let code = if status.is_server_error() { -32000 } else { -32600 };
    let mut response = error(status, &Value::Null, code, &problem.to_string());
    if status.is_server_error() {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
    }
    response
}

fn error(status: StatusCode, id: &Value, code: i32, reason: &str) -> Response<Body> {
    let body = json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": reason } });
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
