//! Access log: one line for each request, when its response was sent or the client has disconnected.

use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::Response;
use hyper::body::{Frame, SizeHint};
use serde::Deserialize;

/// Maximum length of an operation in the log, because clients choose the names.
const MAX_OPERATION: usize = 100;

/// Address of the client of a connection.
#[derive(Clone, Copy)]
pub(super) struct Peer(pub(super) SocketAddr);

/// Method of a request, and the name of its tool, prompt, or resource.
#[derive(Clone)]
pub(super) struct Operation(String);

/// Line about a request, which is written when it is dropped.
pub(super) struct AccessLine {
    client: Option<SocketAddr>,
    operation: String,
    status: u16,
    started: Instant,
}

impl Operation {
    /// Reads the operation of a message, if it will be logged.
    pub(super) fn read(method: Option<&str>, message: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Call {
            params: Params,
        }
        #[derive(Deserialize)]
        struct Params {
            #[serde(alias = "uri")]
            name: String,
        }
        let method = method.filter(|_| tracing::enabled!(tracing::Level::INFO))?;
        let name = serde_json::from_slice::<Call>(message).map(|call| format!(" {}", call.params.name));
        let mut operation = format!("{method}{}", name.unwrap_or_default());
        operation.truncate(operation.floor_char_boundary(MAX_OPERATION));
        Some(Self(operation))
    }
}

impl AccessLine {
    /// Starts the line of a request.
    pub(super) fn new(request: &Request) -> Self {
        let mut operation = format!("{} {}", request.method(), request.uri().path());
        operation.truncate(operation.floor_char_boundary(MAX_OPERATION));
        let client = request.extensions().get().map(|Peer(address)| *address);
        Self { client, operation, status: 0, started: Instant::now() }
    }

    /// Returns the client's address.
    pub(super) fn client(&self) -> Option<SocketAddr> {
        self.client
    }

    /// Writes the line at the end of the response.
    pub(super) fn follow(mut self, mut response: Response<Body>) -> Response<Body> {
        self.status = response.status().as_u16();
        if let Some(Operation(operation)) = response.extensions_mut().remove() {
            self.operation = operation;
        }
        response.map(|body| Body::new(LoggedBody { body, _line: self }))
    }
}

impl Drop for AccessLine {
    fn drop(&mut self) {
        let Self { client, operation, status, started } = self;
        let client = client.map(tracing::field::display);
        let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::info!(client, operation, status, duration_ms, "a request was answered");
    }
}

/// Body that keeps the line of its request.
struct LoggedBody {
    body: Body,
    _line: AccessLine,
}

impl HttpBody for LoggedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
