//! Streamable HTTP with responses of bounded size.
//!
//! The client of the SDK reads JSON responses of any size. This one reads at most the maximum message size, and fails
//! only the request with the longer response, with a clear error. Streams that a server opens on its own are bounded by
//! the SDK.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use futures_core::stream::BoxStream;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use reqwest::{RequestBuilder, Response, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, SseError, StreamableHttpClient,
    StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::Sse;
use tokio::sync::mpsc;

use super::events::Events;
use crate::wire::{self, MAX_MESSAGE, Pending};

const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";
const SESSION: &str = "mcp-session-id";
/// Headers that only this client sets.
const RESERVED: [&str; 3] = ["accept", SESSION, "last-event-id"];
/// Maximum size of an error response.
const MAX_ERROR_BODY: usize = 64 * 1024;

type Failure = StreamableHttpError<reqwest::Error>;
type Posted = Result<StreamableHttpPostResponse, Failure>;

/// An HTTP client with bounded responses.
#[derive(Debug, Clone)]
pub(crate) struct HttpClient(pub(super) reqwest::Client);

impl StreamableHttpClient for HttpClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Posted {
        let mut request = self.0.post(&*uri).header(ACCEPT, format!("{EVENTS}, {JSON}"));
        request = with_headers(request, custom_headers)?.header(CONTENT_TYPE, JSON);
        if let Some(token) = auth_header {
            request = request.bearer_auth(token);
        }
        let in_session = session_id.is_some();
        if let Some(session) = session_id {
            request = request.header(SESSION, &*session);
        }
        let response = request.body(serde_json::to_vec(&message)?).send().await?;
        Post { message, in_session }.answer(response).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failure> {
        self.0.delete_session(uri, session_id, auth_header, custom_headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        let client = &self.0;
        client
            .get_stream_with_max_sse_event_size(
                uri,
                session_id,
                last_event_id,
                auth_header,
                custom_headers,
                MAX_MESSAGE,
            )
            .await
    }
}

fn with_headers(
    mut request: RequestBuilder,
    headers: HashMap<HeaderName, HeaderValue>,
) -> Result<RequestBuilder, Failure> {
    for (name, value) in headers {
        if RESERVED.contains(&name.as_str()) {
            return Err(StreamableHttpError::ReservedHeaderConflict(name.to_string()));
        }
        request = request.header(name, value);
    }
    Ok(request)
}

/// A posted message.
struct Post {
    message: ClientJsonRpcMessage,
    in_session: bool,
}

impl Post {
    async fn answer(self, response: Response) -> Posted {
        check_login(&response)?;
        let status = response.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && self.in_session {
            return Err(StreamableHttpError::SessionExpired);
        }
        if !status.is_success() {
            return self.error_response(response).await;
        }
        // Only a request has a response; anything that servers send for other messages is ignored.
        let ClientJsonRpcMessage::Request(request) = &self.message else {
            return Ok(StreamableHttpPostResponse::Accepted);
        };
        let session = header(&response, SESSION);
        let kind = header(&response, CONTENT_TYPE.as_str());
        match kind.as_deref() {
            Some(kind) if kind.starts_with(EVENTS) => {
                let events = EventStream::new(response, request.id.clone());
                Ok(StreamableHttpPostResponse::Sse(Box::pin(events), session))
            }
            Some(kind) if kind.starts_with(JSON) => match read(response, MAX_MESSAGE).await? {
                Some(body) => Ok(StreamableHttpPostResponse::Json(self.json(&body)?, session)),
                None => Ok(StreamableHttpPostResponse::Json(too_long(&request.id), session)),
            },
            _ => Err(StreamableHttpError::UnexpectedContentType(kind)),
        }
    }

    /// Decodes a response strictly, or else leniently.
    fn json(&self, body: &[u8]) -> Result<ServerJsonRpcMessage, Failure> {
        let error = match serde_json::from_slice(body) {
            Ok(message) => return Ok(message),
            Err(error) => error,
        };
        let pending = Pending::without_deadline();
        pending.sent(&self.message);
        pending.read(body).ok_or_else(|| {
            let text = format!("the response is not a message: {error}");
            StreamableHttpError::UnexpectedServerResponse(text.into())
        })
    }

    /// Converts an error status to the response in its body, if any, or to an error.
    async fn error_response(self, response: Response) -> Posted {
        let status = response.status();
        let session = header(&response, SESSION);
        let is_json = header(&response, CONTENT_TYPE.as_str()).is_some_and(|kind| kind.starts_with(JSON));
        let is_busy = status == StatusCode::TOO_MANY_REQUESTS;
        let outage = (is_busy || status.is_server_error())
            .then(|| HttpStatusError::new(status.as_u16(), header(&response, RETRY_AFTER.as_str())));
        if let Some(outage) = outage {
            let body = if is_json && !is_busy { read(response, MAX_ERROR_BODY).await? } else { None };
            return match body.and_then(|body| error_in(&body)) {
                Some(error) => Ok(StreamableHttpPostResponse::Json(error, session)),
                None => Err(outage.into()),
            };
        }
        let body = read(response, MAX_ERROR_BODY).await?.unwrap_or_default();
        let is_login = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        if status.is_client_error() && !is_login {
            if let Some(answer) = self.rejected_discovery(status, &body) {
                return Ok(StreamableHttpPostResponse::Json(answer, None));
            }
            if let Some(error) = error_in(&body).filter(|_| is_json) {
                return Ok(StreamableHttpPostResponse::Json(error, session));
            }
        }
        let text = format!("HTTP {status}: {}", String::from_utf8_lossy(&body));
        Err(StreamableHttpError::UnexpectedServerResponse(
            text.trim_end_matches([':', ' ']).to_owned().into(),
        ))
    }

    /// Converts the rejection of `server/discover`, in any form, to an error response.
    fn rejected_discovery(&self, status: StatusCode, body: &[u8]) -> Option<ServerJsonRpcMessage> {
        let ClientJsonRpcMessage::Request(request) = &self.message else { return None };
        if self.in_session || !matches!(request.request, ClientRequest::DiscoverRequest(_)) {
            return None;
        }
        let error = match error_in(body) {
            Some(ServerJsonRpcMessage::Error(error)) => error.error,
            _ => ErrorData::invalid_request(format!("server/discover was rejected with HTTP {status}"), None),
        };
        Some(ServerJsonRpcMessage::error(error, Some(request.id.clone())))
    }
}

fn check_login(response: &Response) -> Result<(), Failure> {
    let Some(challenge) = header(response, WWW_AUTHENTICATE.as_str()) else { return Ok(()) };
    match response.status() {
        StatusCode::UNAUTHORIZED => Err(StreamableHttpError::AuthRequired(AuthRequiredError::new(challenge))),
        StatusCode::FORBIDDEN => {
            Err(StreamableHttpError::InsufficientScope(InsufficientScopeError::new(challenge, None)))
        }
        _ => Ok(()),
    }
}

fn header(response: &Response, name: &str) -> Option<String> {
    response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

fn error_in(body: &[u8]) -> Option<ServerJsonRpcMessage> {
    let message = serde_json::from_slice(body).ok()?;
    matches!(message, ServerJsonRpcMessage::Error(_)).then_some(message)
}

fn too_long(request: &RequestId) -> ServerJsonRpcMessage {
    ServerJsonRpcMessage::error(wire::too_long_error(), Some(request.clone()))
}

/// Reads a body; `None`, without reading the rest, if it exceeds the limit.
async fn read(mut response: Response, limit: usize) -> Result<Option<Vec<u8>>, reqwest::Error> {
    if response.content_length().is_some_and(|length| length > limit as u64) {
        return Ok(None);
    }
    let mut body = Vec::new();
    while let Some(part) = response.chunk().await? {
        if body.len() + part.len() > limit {
            return Ok(None);
        }
        body.extend_from_slice(&part);
    }
    Ok(Some(body))
}

/// Events of the response to a request. An overlong event becomes an error response and ends the stream.
struct EventStream(mpsc::Receiver<Result<Sse, SseError>>);

impl EventStream {
    fn new(response: Response, request: RequestId) -> Self {
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(async move {
            tokio::select! {
                () = forward(response, &request, &sender) => {}
                // The receiver was dropped.
                () = sender.closed() => {}
            }
        });
        Self(receiver)
    }
}

async fn forward(response: Response, request: &RequestId, sender: &mpsc::Sender<Result<Sse, SseError>>) {
    let mut events = Events::new(response);
    loop {
        let next = match events.next().await {
            Ok(Some(event)) => Ok(event),
            Ok(None) => return,
            Err(_) if events.overflows() => {
                let data = serde_json::to_string(&too_long(request)).unwrap_or_default();
                let _ = sender.send(Ok(Sse::default().data(data))).await;
                return;
            }
            Err(error) => Err(SseError::Body(error.into())),
        };
        let is_end = next.is_err();
        if sender.send(next).await.is_err() || is_end {
            return;
        }
    }
}

impl Stream for EventStream {
    type Item = Result<Sse, SseError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context)
    }
}
