//! What every request meets first: the routes, the guard, the limits, and errors that say what is wrong.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use axum::routing::any;
use rmcp::model::ProtocolVersion;
use rmcp::transport::streamable_http_server::StreamableHttpService;
use serde::Deserialize;
use serde_json::{Value, json};

use super::guard::{Access, Refusal};
use super::sessions::Sessions;
use super::{BODY, early};
use crate::layer::{About, Connection, Service};

/// The longest error of the SDK that is passed on.
const MAX_REASON: usize = 4096;

/// Stands in front of the SDK.
pub(super) struct Front<S> {
    pub(super) mcp: StreamableHttpService<Connection<S>, Sessions>,
    pub(super) sessions: Arc<Sessions>,
    pub(super) access: Access,
    pub(super) body: usize,
    pub(super) about: About,
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
        Router::new()
            .route("/", any(greet::<S>))
            .route("/mcp", any(serve::<S>))
            .fallback(unknown::<S>)
            .with_state(Arc::new(self))
    }

    fn admit(&self, request: &Request) -> Result<(), Box<Response<Body>>> {
        self.access
            .check_source(request.uri(), request.headers())
            .and_then(|()| self.access.check_token(request.headers()))
            .map_err(|refusal| Box::new(refused(refusal)))
    }

    /// Takes the message in, as far as it can be one.
    async fn message(&self, body: Body) -> Result<(Bytes, Envelope), Box<Response<Body>>> {
        let refuse = |status, code, reason: &str| Box::new(error(status, &Value::Null, code, reason));
        let read = tokio::time::timeout(BODY, to_bytes(body, self.body)).await;
        let bytes = match read {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(_)) => {
                let reason = format!("the body could not be read, or is longer than {} bytes", self.body);
                return Err(refuse(StatusCode::PAYLOAD_TOO_LARGE, -32600, &reason));
            }
            Err(_) => {
                return Err(refuse(StatusCode::REQUEST_TIMEOUT, -32600, "the body took too long to arrive"));
            }
        };
        match serde_json::from_slice::<Envelope>(&bytes) {
            Ok(envelope) => Ok((bytes, envelope)),
            Err(problem) if problem.is_data() => {
                let reason = "not a JSON-RPC 2.0 request or notification; batches are not supported";
                Err(refuse(StatusCode::BAD_REQUEST, -32600, reason))
            }
            Err(problem) => Err(refuse(StatusCode::BAD_REQUEST, -32700, &format!("not JSON: {problem}"))),
        }
    }
}

/// Serves the protocol.
async fn serve<S: Service>(State(front): State<Arc<Front<S>>>, request: Request) -> Response<Body> {
    if let Err(refusal) = front.admit(&request) {
        return *refusal;
    }
    if request.method() != Method::POST {
        let ends = request.method() == Method::DELETE;
        let mut answer = front.mcp.handle(request).await.map(Body::new);
        if ends && answer.status() == StatusCode::ACCEPTED {
            // The session is gone already, and some clients take anything else for a failure.
            *answer.status_mut() = StatusCode::NO_CONTENT;
        }
        return explained(answer, &Value::Null).await;
    }
    let (parts, body) = request.into_parts();
    let (bytes, envelope) = match front.message(body).await {
        Ok(message) => message,
        Err(refusal) => return *refusal,
    };
    if envelope.method.as_deref() == Some("initialize") && !front.sessions.has_room() {
        let mut full =
            error(StatusCode::SERVICE_UNAVAILABLE, &envelope.id, -32000, "too many sessions; try later");
        full.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("30"));
        return full;
    }
    let is_slow = may_be_slow(&parts.headers, envelope.method.as_deref());
    let request = Request::from_parts(parts, Body::from(bytes));
    let answer = Box::pin(async move {
        let answer = front.mcp.handle(request).await.map(Body::new);
        explained(answer, &envelope.id).await
    });
    if is_slow { early::answer(answer).await } else { answer.await }
}

/// Says whether nothing may come for long, and whether the answer needs no head of its own: in a session the SDK
/// answers at once, and its status and headers count.
fn may_be_slow(headers: &HeaderMap, method: Option<&str>) -> bool {
    let version = headers.get("mcp-protocol-version").map(HeaderValue::as_bytes);
    version.is_some_and(|version| version >= ProtocolVersion::V_2026_07_28.as_str().as_bytes())
        && matches!(method, Some("tools/call" | "prompts/get" | "resources/read"))
}

/// Says to a person what this is.
async fn greet<S: Service>(State(front): State<Arc<Front<S>>>, request: Request) -> Response<Body> {
    if let Err(refusal) = front.access.check_source(request.uri(), request.headers()) {
        return refused(refusal);
    }
    let About { name, version, title, .. } = &front.about;
    let text =
        format!("{title} ({name} {version})\n\nThis is an MCP server. Point your MCP client at /mcp.\n");
    let mut response = Response::new(Body::from(text));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

async fn unknown<S: Service>(State(front): State<Arc<Front<S>>>, request: Request) -> Response<Body> {
    match front.admit(&request) {
        Err(refusal) => *refusal,
        Ok(()) => error(StatusCode::NOT_FOUND, &Value::Null, -32601, "there is nothing here; MCP is at /mcp"),
    }
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
        Refusal::Host => (StatusCode::FORBIDDEN, "this Host is not served here"),
        Refusal::Origin => (StatusCode::FORBIDDEN, "pages of this Origin may not come in"),
        Refusal::NoToken => (StatusCode::UNAUTHORIZED, "a bearer token is needed"),
        Refusal::WrongToken => (StatusCode::UNAUTHORIZED, "this is not the bearer token"),
    };
    let mut response = error(status, &Value::Null, -32600, reason);
    let challenge = match refusal {
        Refusal::Host | Refusal::Origin => return response,
        Refusal::NoToken => "Bearer realm=\"meerkat\"",
        Refusal::WrongToken => "Bearer realm=\"meerkat\", error=\"invalid_token\"",
    };
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    response
}

fn error(status: StatusCode, id: &Value, code: i32, reason: &str) -> Response<Body> {
    let body = json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": reason } });
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
