//! Early start of slow responses.
//!
//! The SDK sends nothing before the first message of a request, and proxies between client and server time out on a
//! silent connection. So a slow request gets its response headers and keep-alive comments first. The status is fixed
//! from then on: any result is sent as an event.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderValue, Response, StatusCode, header};
use hyper::body::Frame;
use tokio::time::{Instant, Interval};

use super::{DEFER_DELAY, KEEP_ALIVE};

/// Response that is not available yet.
type PendingResponse = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

/// Waits briefly for the response, and starts one without it if it takes longer.
pub(super) async fn answer(mut pending: PendingResponse) -> Response<Body> {
    if let Ok(response) = tokio::time::timeout(DEFER_DELAY, &mut pending).await {
        return response;
    }
    let mut alive = tokio::time::interval_at(Instant::now(), KEEP_ALIVE);
    alive.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut response = Response::new(Body::new(DeferredBody::Waiting { pending, alive }));
    *response.status_mut() = StatusCode::OK;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// Body whose content is not available yet.
enum DeferredBody {
    Waiting {
        pending: PendingResponse,
        alive: Interval,
    },
    /// The response is already an event stream.
    Events(Body),
    /// The response is a single document, which becomes one event.
    Document {
        body: Body,
        read: Vec<u8>,
    },
    Done,
}

impl DeferredBody {
    /// Continues with the response that is now available.
    fn from_answer(response: Response<Body>) -> Self {
        let events = response.headers().get(header::CONTENT_TYPE);
        let events = events.is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"));
        let body = response.into_body();
        if events { Self::Events(body) } else { Self::Document { body, read: Vec::new() } }
    }
}

impl HttpBody for DeferredBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        loop {
            match &mut *self {
                Self::Waiting { pending, alive } => {
                    if let Poll::Ready(response) = pending.as_mut().poll(context) {
                        *self = Self::from_answer(response);
                    } else if alive.poll_tick(context).is_ready() {
                        return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b":\n\n")))));
                    } else {
                        return Poll::Pending;
                    }
                }
                Self::Events(body) => {
                    let polled = std::task::ready!(Pin::new(body).poll_frame(context));
                    // A broken body ends the stream.
                    return Poll::Ready(polled.and_then(Result::ok).map(Ok));
                }
                Self::Document { body, read } => {
                    match std::task::ready!(Pin::new(body).poll_frame(context)) {
                        Some(Ok(frame)) => read.extend(frame.into_data().unwrap_or_default()),
                        Some(Err(_)) | None => {
                            let event = [b"data: ".as_slice(), read.as_slice(), b"\n\n"].concat();
                            *self = Self::Done;
                            return Poll::Ready(Some(Ok(Frame::data(event.into()))));
                        }
                    }
                }
                Self::Done => return Poll::Ready(None),
            }
        }
    }
}
