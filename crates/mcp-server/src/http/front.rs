//! What every request meets first: the routes, the guard, the limits, and errors that say what is wrong.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use axum::routing::any;
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, ProtocolVersion};
use rmcp::transport::streamable_http_server::StreamableHttpService;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::bodies::{Bodies, BodyError};
use super::guard::{Access, Refusal};
use super::sessions::{Batch, Sessions};
use super::{cors, early};
use crate::layer::{Connection, Service, batch};

/// The longest error of the SDK that is passed on.
const MAX_REASON: usize = 4096;

/// Stands in front of the SDK.
pub(super) struct Front<S> {
    pub(super) mcp: StreamableHttpService<Connection<S>, Sessions>,
    pub(super) sessions: Arc<Sessions>,
    pub(super) access: Access,
    pub(super) bodies: Bodies,
    pub(super) title: &'static str,
}

/// What there is to see of a message before it is decoded.
#[derive(Deserialize)]
struct Envelope {
    #[serde(default)]
    id: Value,
    method: Option<String>,
}

impl<S: Service> Front<S> {
    pub(super) fn router(self) -> Router {
        let front = Arc::new(self);
        Router::new()
            .route("/", any(greet::<S>))
            .route("/mcp", any(serve::<S>))
            .fallback(unknown)
            .layer(axum::middleware::from_fn_with_state(Arc::clone(&front), admit::<S>))
            .with_state(front)
    }

    /// Takes the message in, as far as it can be one; a list of messages has no envelope.
    async fn message(&self, body: Body) -> Result<(Bytes, Option<Envelope>), Box<Response<Body>>> {
        let refuse = |status, code, reason: &str| Box::new(error(status, &Value::Null, code, reason));
        let bytes = self.bodies.read(body).await.map_err(|problem| Box::new(unread(&problem)))?;
        let envelope = match is_list(&bytes) {
            true => serde_json::from_slice::<IgnoredAny>(&bytes).map(|_| None),
            false => serde_json::from_slice::<Envelope>(&bytes).map(Some),
        };
        match envelope {
            Ok(envelope) => Ok((bytes, envelope)),
            Err(problem) if problem.is_data() => {
                Err(refuse(StatusCode::BAD_REQUEST, -32600, "not a JSON-RPC 2.0 request or notification"))
            }
            Err(problem) => Err(refuse(StatusCode::BAD_REQUEST, -32700, &format!("not JSON: {problem}"))),
        }
    }

    /// Says what is wrong with a stream that a client wants to go on with.
    fn refuse_resume(&self, headers: &HeaderMap) -> Option<Response<Body>> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let (session, last) = (text("mcp-session-id")?, text("last-event-id")?);
        if self.sessions.can_resume(session, last) {
            return None;
        }
        let reason = format!(
            "the stream of event `{last}` is not kept, or not any more; make its request again, or open a stream \
             without Last-Event-ID"
        );
        Some(error(StatusCode::BAD_REQUEST, &Value::Null, -32600, &reason))
    }

    /// Passes a request on to the SDK.
    async fn handle(&self, request: Request, id: &Value) -> Response<Body> {
        explained(self.mcp.handle(request).await.map(Body::new), id).await
    }

    /// Serves messages that came together. The SDK is given the first request and carries the others along.
    async fn handle_batch(&self, request: Request, bytes: &Bytes) -> Response<Body> {
        let refuse = |status, reason: &str| error(status, &Value::Null, -32600, reason);
        let session = request.headers().get("mcp-session-id").and_then(|value| value.to_str().ok());
        let version = session.map(|session| self.sessions.version(session));
        if version == Some(None) {
            return refuse(StatusCode::NOT_FOUND, "Not Found: Session not found");
        }
        let messages = match batch::read(bytes, version.flatten().as_ref()) {
            Ok(messages) => messages,
            Err(problem) => return refuse(StatusCode::BAD_REQUEST, &problem.to_string()),
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

/// Lets in who may come in, and tells pages of other origins that they may read the answer.
async fn admit<S: Service>(
    State(front): State<Arc<Front<S>>>,
    request: Request,
    next: axum::middleware::Next,
) -> Response<Body> {
    let (uri, headers) = (request.uri(), request.headers());
    if let Err(refusal) = front.access.check_source(uri, headers) {
        tracing::debug!("a request was refused for where it comes from");
        return refused(refusal);
    }
    if let Some(answer) = cors::preflight(request.method(), headers) {
        return answer;
    }
    let origin = headers.get(header::ORIGIN).cloned();
    let token = if uri.path() == "/" { Ok(()) } else { front.access.check_token(headers) };
    let path = uri.path().to_owned();
    let mut response = match token {
        Ok(()) => next.run(request).await,
        Err(refusal) => refused(refusal),
    };
    tracing::debug!(path, status = response.status().as_u16(), "a request was answered");
    cors::allow(&mut response, origin);
    response
}

/// Serves the protocol.
async fn serve<S: Service>(State(front): State<Arc<Front<S>>>, request: Request) -> Response<Body> {
    if request.method() != Method::POST {
        if let Some(refusal) = front.refuse_resume(request.headers()) {
            return refusal;
        }
        let ends = request.method() == Method::DELETE;
        let mut answer = front.handle(request, &Value::Null).await;
        if ends && answer.status() == StatusCode::ACCEPTED {
            // The session is gone already, and some clients take anything else for a failure.
            *answer.status_mut() = StatusCode::NO_CONTENT;
        }
        return answer;
    }
    let (parts, body) = request.into_parts();
    let (bytes, envelope) = match front.message(body).await {
        Ok(message) => message,
        Err(refusal) => return *refusal,
    };
    let Some(envelope) = envelope else {
        return front.handle_batch(Request::from_parts(parts, Body::empty()), &bytes).await;
    };
    if envelope.method.as_deref() == Some("initialize") && !front.sessions.make_room() {
        let reason = "too many sessions, and all of them in use; try later";
        let mut full = error(StatusCode::SERVICE_UNAVAILABLE, &envelope.id, -32000, reason);
        full.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("30"));
        return full;
    }
    let is_slow = may_be_slow(&parts.headers, envelope.method.as_deref());
    let request = Request::from_parts(parts, Body::from(bytes));
    let answer = Box::pin(async move { front.handle(request, &envelope.id).await });
    if is_slow { early::answer(answer).await } else { answer.await }
}

/// Says whether nothing may come for long, and whether the answer needs no head of its own: in a session the SDK
/// answers at once, and its status and headers count.
fn may_be_slow(headers: &HeaderMap, method: Option<&str>) -> bool {
    let version = headers.get("mcp-protocol-version").map(HeaderValue::as_bytes);
    version.is_some_and(|version| version >= ProtocolVersion::V_2026_07_28.as_str().as_bytes())
        && matches!(method, Some("tools/call" | "prompts/get" | "resources/read"))
}

/// Says to a person what this is. It asks for no token, and so it does not name the version.
async fn greet<S: Service>(State(front): State<Arc<Front<S>>>) -> Response<Body> {
    let text = format!("{}\n\nThis is an MCP server. Point your MCP client at /mcp.\n", front.title);
    let mut response = Response::new(Body::from(text));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

async fn unknown() -> Response<Body> {
    error(StatusCode::NOT_FOUND, &Value::Null, -32601, "there is nothing here; MCP is at /mcp")
}

/// Makes an error of the SDK, which is bare text, one that a client can read.
async fn explained(response: Response<Body>, id: &Value) -> Response<Body> {
    let json = response.headers().get(header::CONTENT_TYPE);
    let json = json.is_some_and(|value| value.as_bytes().starts_with(b"application/json"));
    let mut status = response.status();
    if json || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let (parts, body) = response.into_parts();
    let reason = to_bytes(body, MAX_REASON).await.unwrap_or_default();
    let mut reason = String::from_utf8_lossy(&reason).into_owned();
    // The SDK says so of every body that is JSON and no message.
    if reason.starts_with("fail to deserialize request body") {
        status = StatusCode::BAD_REQUEST;
        reason = "not a JSON-RPC 2.0 request or notification".to_owned();
    }
    let code = if status.is_server_error() { -32603 } else { -32600 };
    let mut explained = error(status, id, code, &reason);
    for name in [header::ALLOW, header::RETRY_AFTER] {
        if let Some(value) = parts.headers.get(&name) {
            explained.headers_mut().insert(name, value.clone());
        }
    }
    explained
}

fn refused(refusal: Refusal) -> Response<Body> {
    let (status, reason) = match refusal {
        Refusal::AbsoluteUri => {
            (StatusCode::BAD_REQUEST, "send the path alone, such as /mcp, and the host in Host")
        }
        Refusal::RepeatedHost => (StatusCode::BAD_REQUEST, "send one Host header"),
        Refusal::Host => (StatusCode::FORBIDDEN, "this Host is not served here"),
        Refusal::Origin => (StatusCode::FORBIDDEN, "pages of this Origin may not come in"),
        Refusal::NoToken => (StatusCode::UNAUTHORIZED, "a bearer token is needed"),
        Refusal::WrongToken => (StatusCode::UNAUTHORIZED, "this is not the bearer token"),
    };
    let mut response = error(status, &Value::Null, -32600, reason);
    let challenge = match refusal {
        Refusal::AbsoluteUri | Refusal::RepeatedHost | Refusal::Host | Refusal::Origin => return response,
        Refusal::NoToken => "Bearer realm=\"meerkat\"",
        Refusal::WrongToken => "Bearer realm=\"meerkat\", error=\"invalid_token\"",
    };
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    response
}

/// Answers a request whose body was not read to its end.
fn unread(problem: &BodyError) -> Response<Body> {
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
