//! An answer that takes long begins at once.
//!
//! The SDK sends nothing before the first message of a request, and what stands between client and server
//! gives up on a connection that is silent. So a slow request gets its head and signs of life meanwhile. The
//! status is then fixed: whatever comes is sent as an event.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderValue, Response, StatusCode, header};
use hyper::body::Frame;
use tokio::time::{Instant, Interval};

use super::{EARLY, KEEP_ALIVE};

/// An answer that is still to come.
type Coming = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

/// Waits a moment for the answer, and begins without it if it takes longer.
pub(super) async fn answer(mut coming: Coming) -> Response<Body> {
    if let Ok(response) = tokio::time::timeout(EARLY, &mut coming).await {
        return response;
    }
    let mut alive = tokio::time::interval_at(Instant::now(), KEEP_ALIVE);
    alive.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut response = Response::new(Body::new(Early::Waiting { coming, alive }));
    *response.status_mut() = StatusCode::OK;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// A body whose content is still to come.
enum Early {
    Waiting {
        coming: Coming,
        alive: Interval,
    },
    /// The answer is a stream of events already.
    Events(Body),
    /// The answer is one document, which becomes one event.
    Document {
        body: Body,
        read: Vec<u8>,
    },
    Done,
}

impl Early {
    /// Goes on with the answer that has come.
    fn from_answer(response: Response<Body>) -> Self {
        let events = response.headers().get(header::CONTENT_TYPE);
        let events = events.is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"));
        let body = response.into_body();
        if events { Self::Events(body) } else { Self::Document { body, read: Vec::new() } }
    }
}

impl HttpBody for Early {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        loop {
            match &mut *self {
                Self::Waiting { coming, alive } => {
                    if let Poll::Ready(response) = coming.as_mut().poll(context) {
                        *self = Self::from_answer(response);
                    } else if alive.poll_tick(context).is_ready() {
                        return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b":\n\n")))));
                    } else {
                        return Poll::Pending;
                    }
                }
                Self::Events(body) => {
                    let polled = std::task::ready!(Pin::new(body).poll_frame(context));
                    // A body that breaks off ends.
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
