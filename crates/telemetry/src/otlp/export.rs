//! Export of spans: from a bounded queue, in batches, on a dedicated thread.
//!
//! A run never waits for a collector and never fails because of one. Spans that do not fit into the queue or that a
//! collector rejects are dropped and counted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout_at};

use super::proto::{Span, request};
use crate::OtlpOptions;

/// Maximum number of spans queued for an unavailable collector.
const QUEUE_CAPACITY: usize = 4096;
/// Maximum number of spans in one request.
const BATCH_SIZE: usize = 512;
/// Maximum time a span waits for a batch to fill.
const BATCH_DELAY: Duration = Duration::from_secs(1);
/// Maximum number of retries of a batch, and the delay before the first; it doubles each time.
const RETRIES: u32 = 3;
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(500);

/// Queue of ended spans.
#[derive(Clone)]
pub(super) struct Queue {
    spans: mpsc::Sender<Span>,
    lost: Arc<DroppedSpans>,
}

/// Spans that were not delivered, and why.
#[derive(Default)]
struct DroppedSpans {
    count: AtomicU64,
    reason: Mutex<String>,
}

impl DroppedSpans {
    fn note(&self, count: usize, reason: &str) {
        self.count.fetch_add(count as u64, Ordering::Relaxed);
        reason.clone_into(&mut self.reason.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Queue {
    pub(super) fn bounded(length: usize) -> (Self, mpsc::Receiver<Span>) {
        let (spans, ended) = mpsc::channel(length);
        (Self { spans, lost: Arc::default() }, ended)
    }

    pub(super) fn put(&self, span: Span) {
        if self.spans.try_send(span).is_err() {
            self.lost.note(1, "the collector is too slow");
        }
    }
}

/// Handle of the export thread.
pub(crate) struct Exporter {
    url: String,
    flush: mpsc::Sender<Flush>,
    lost: Arc<DroppedSpans>,
}

/// A request to send everything before a deadline, and a channel that signals completion.
struct Flush {
    until: Instant,
    done: oneshot::Sender<()>,
}

impl Exporter {
    pub(super) fn start(options: OtlpOptions) -> (Self, Queue) {
        let (queue, ended) = Queue::bounded(QUEUE_CAPACITY);
        let (flush, flushes) = mpsc::channel(1);
        let lost = Arc::clone(&queue.lost);
        let exporter = Self { url: display_url(&options.url), flush, lost: Arc::clone(&lost) };
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match (runtime, client(&options)) {
                (Ok(runtime), Ok(client)) => {
                    runtime.block_on(Sender { client, options, lost, ended, flushes }.work());
                }
                (Err(error), _) => lost.note(0, &error.to_string()),
                (_, Err(error)) => lost.note(0, &root_cause(&error)),
            }
        };
        if let Err(error) = std::thread::Builder::new().name("traces".to_owned()).spawn(run) {
            exporter.lost.note(0, &error.to_string());
        }
        (exporter, queue)
    }

    /// Sends pending spans for at most `timeout`; returns a message about spans that were not delivered.
    pub(crate) fn finish(&self, timeout: Duration) -> Option<String> {
        let (done, sent) = oneshot::channel();
        let requested = self.flush.try_send(Flush { until: Instant::now() + timeout, done });
        if requested.is_ok() {
            // The thread enforces the deadline itself, and drops the channel if it exits.
            let _ = sent.blocking_recv();
        }
        let count = self.lost.count.load(Ordering::Relaxed);
        let reason = self.lost.reason.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (!reason.is_empty()).then(|| format!("{count} spans did not reach {}: {reason}", self.url))
    }
}

/// Returns the URL without its credentials and query.
fn display_url(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    match url.split_once("://") {
        Some((scheme, rest)) => match rest.split_once('@') {
            Some((user, host)) if !user.contains('/') => format!("{scheme}://{host}"),
            _ => url.to_owned(),
        },
        None => url.to_owned(),
    }
}

fn client(options: &OtlpOptions) -> reqwest::Result<reqwest::Client> {
    // If another component installed a provider first, it is the same one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut headers = HeaderMap::new();
    for (name, value) in &options.headers {
        let (name, value) = (HeaderName::try_from(name.as_str()), HeaderValue::try_from(value.as_str()));
        if let (Ok(name), Ok(mut value)) = (name, value) {
            value.set_sensitive(true);
            headers.insert(name, value);
        }
    }
    reqwest::Client::builder()
        .default_headers(headers)
        .timeout(options.timeout)
        .redirect(reqwest::redirect::Policy::none())
        .build()
}

struct Sender {
    client: reqwest::Client,
    options: OtlpOptions,
    lost: Arc<DroppedSpans>,
    ended: mpsc::Receiver<Span>,
    flushes: mpsc::Receiver<Flush>,
}

/// Reason a batch was not delivered.
enum SendError {
    /// A retry may succeed.
    Retryable(String),
    Permanent(String),
}

impl Sender {
    async fn work(mut self) {
        let mut batch = Vec::new();
        loop {
            tokio::select! {
                read = self.ended.recv_many(&mut batch, BATCH_SIZE) => {
                    if read == 0 {
                        return;
                    }
                    if let Some(flush) = self.gather(&mut batch).await {
                        return self.flush(batch, flush).await;
                    }
                    if let Some(flush) = self.deliver(&mut batch).await {
                        return self.flush(batch, flush).await;
                    }
                }
                flush = self.flushes.recv() => {
                    if let Some(flush) = flush {
                        self.flush(batch, flush).await;
                    }
                    return;
                }
            }
        }
    }

    /// Waits for more spans to fill a batch, unless a flush is requested.
    async fn gather(&mut self, batch: &mut Vec<Span>) -> Option<Flush> {
        let due = Instant::now() + BATCH_DELAY;
        while batch.len() < BATCH_SIZE {
            let free = BATCH_SIZE - batch.len();
            tokio::select! {
                read = self.ended.recv_many(batch, free) => if read == 0 { return None },
                flush = self.flushes.recv() => return flush,
                () = tokio::time::sleep_until(due) => return None,
            }
        }
        None
    }

    /// Sends a batch, with retries, unless a flush is requested.
    async fn deliver(&mut self, batch: &mut Vec<Span>) -> Option<Flush> {
        for attempt in 0..=RETRIES {
            let result = tokio::select! {
                sent = send(&self.client, &self.options, batch) => sent,
                flush = self.flushes.recv() => return flush,
            };
            match result {
                Ok(()) => {
                    batch.clear();
                    return None;
                }
                Err(SendError::Retryable(_)) if attempt < RETRIES => {
                    tokio::select! {
                        () = sleep(FIRST_RETRY_DELAY * 2_u32.pow(attempt)) => {}
                        flush = self.flushes.recv() => return flush,
                    }
                }
                Err(SendError::Retryable(reason) | SendError::Permanent(reason)) => {
                    self.lost.note(batch.len(), &reason);
                    batch.clear();
                    return None;
                }
            }
        }
        None
    }

    /// Sends all pending spans, once, until the deadline.
    async fn flush(mut self, mut batch: Vec<Span>, flush: Flush) {
        loop {
            while batch.len() < BATCH_SIZE
                && let Ok(span) = self.ended.try_recv()
            {
                batch.push(span);
            }
            if batch.is_empty() {
                break;
            }
            let reason = match timeout_at(flush.until, send(&self.client, &self.options, &batch)).await {
                Ok(Ok(())) => {
                    batch.clear();
                    continue;
                }
                Ok(Err(SendError::Retryable(reason) | SendError::Permanent(reason))) => reason,
                Err(_) => "the collector did not respond in time".to_owned(),
            };
            self.lost.note(batch.len() + self.ended.len(), &reason);
            break;
        }
        let _ = flush.done.send(());
    }
}

async fn send(client: &reqwest::Client, options: &OtlpOptions, batch: &[Span]) -> Result<(), SendError> {
    let body = request(&options.resource, batch);
    let post = client.post(&options.url).header("content-type", "application/x-protobuf").body(body);
    let status = match post.send().await {
        Ok(response) => response.status(),
        Err(error) => return Err(SendError::Retryable(root_cause(&error.without_url()))),
    };
    let reason = || format!("the collector returned {status}");
    match status {
        _ if status.is_success() => Ok(()),
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => Err(SendError::Retryable(reason())),
        _ => Err(SendError::Permanent(reason())),
    }
}

fn root_cause(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = error.to_string();
        source = error.source();
    }
    text
}
