//! Sending spans: from a bounded queue, in batches, by a thread of its own.
//!
//! A run never waits for a collector and never fails for one. What does not fit into the queue and what a collector
//! does not take is dropped and counted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout_at};

use super::proto::{Span, request};
use crate::OtlpOptions;

/// How many spans wait for a collector that is away.
const WAITING: usize = 4096;
/// How many are sent at once.
const BATCH: usize = 512;
/// How long a span waits for others to go with.
const DELAY: Duration = Duration::from_secs(1);
/// How often a batch is tried again, and how long after the first try; the pause doubles.
const RETRIES: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// Where ended spans wait.
#[derive(Clone)]
pub(super) struct Queue {
    spans: mpsc::Sender<Span>,
    lost: Arc<Lost>,
}

/// What did not arrive.
#[derive(Default)]
struct Lost {
    count: AtomicU64,
    reason: Mutex<String>,
}

impl Lost {
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

/// The thread that sends.
pub(crate) struct Exporter {
    url: String,
    flush: mpsc::Sender<Flush>,
    lost: Arc<Lost>,
}

/// An order to send everything until a moment, and who is told that it is done.
struct Flush {
    until: Instant,
    done: oneshot::Sender<()>,
}

impl Exporter {
    pub(super) fn start(options: OtlpOptions) -> (Self, Queue) {
        let (queue, ended) = Queue::bounded(WAITING);
        let (flush, orders) = mpsc::channel(1);
        let lost = Arc::clone(&queue.lost);
        let exporter = Self { url: place(&options.url), flush, lost: Arc::clone(&lost) };
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match (runtime, client(&options)) {
                (Ok(runtime), Ok(client)) => {
                    runtime.block_on(Sender { client, options, lost, ended, orders }.work());
                }
                (Err(error), _) => lost.note(0, &error.to_string()),
                (_, Err(error)) => lost.note(0, &causes(&error)),
            }
        };
        if let Err(error) = std::thread::Builder::new().name("traces".to_owned()).spawn(run) {
            exporter.lost.note(0, &error.to_string());
        }
        (exporter, queue)
    }

    /// Sends what waits, for at most so long; returns what did not arrive.
    pub(crate) fn finish(&self, patience: Duration) -> Option<String> {
        let (done, sent) = oneshot::channel();
        let ordered = self.flush.try_send(Flush { until: Instant::now() + patience, done });
        if ordered.is_ok() {
            // It keeps its time itself, and is gone if it has to be.
            let _ = sent.blocking_recv();
        }
        let count = self.lost.count.load(Ordering::Relaxed);
        let reason = self.lost.reason.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (!reason.is_empty()).then(|| format!("{count} spans did not reach {}: {reason}", self.url))
    }
}

/// The address without who asks and without its query.
fn place(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    match url.split_once("://") {
        Some((scheme, rest)) => match rest.split_once('@') {
            Some((user, place)) if !user.contains('/') => format!("{scheme}://{place}"),
            _ => url.to_owned(),
        },
        None => url.to_owned(),
    }
}

fn client(options: &OtlpOptions) -> reqwest::Result<reqwest::Client> {
    // Whoever came first has installed the same.
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
    lost: Arc<Lost>,
    ended: mpsc::Receiver<Span>,
    orders: mpsc::Receiver<Flush>,
}

/// Why a batch did not arrive.
enum Refusal {
    /// It may the next time.
    ForNow(String),
    ForGood(String),
}

impl Sender {
    async fn work(mut self) {
        let mut batch = Vec::new();
        loop {
            tokio::select! {
                read = self.ended.recv_many(&mut batch, BATCH) => {
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
                flush = self.orders.recv() => {
                    if let Some(flush) = flush {
                        self.flush(batch, flush).await;
                    }
                    return;
                }
            }
        }
    }

    /// Waits for more spans to fill a batch, unless everything is to be sent now.
    async fn gather(&mut self, batch: &mut Vec<Span>) -> Option<Flush> {
        let due = Instant::now() + DELAY;
        while batch.len() < BATCH {
            let room = BATCH - batch.len();
            tokio::select! {
                read = self.ended.recv_many(batch, room) => if read == 0 { return None },
                flush = self.orders.recv() => return flush,
                () = tokio::time::sleep_until(due) => return None,
            }
        }
        None
    }

    /// Sends a batch, again if need be, unless everything is to be sent now.
    async fn deliver(&mut self, batch: &mut Vec<Span>) -> Option<Flush> {
        for tried in 0..=RETRIES {
            let refusal = tokio::select! {
                sent = send(&self.client, &self.options, batch) => sent,
                flush = self.orders.recv() => return flush,
            };
            match refusal {
                Ok(()) => {
                    batch.clear();
                    return None;
                }
                Err(Refusal::ForNow(_)) if tried < RETRIES => {
                    tokio::select! {
                        () = sleep(FIRST_PAUSE * 2_u32.pow(tried)) => {}
                        flush = self.orders.recv() => return flush,
                    }
                }
                Err(Refusal::ForNow(reason) | Refusal::ForGood(reason)) => {
                    self.lost.note(batch.len(), &reason);
                    batch.clear();
                    return None;
                }
            }
        }
        None
    }

    /// Sends what is left, once, while there is time.
    async fn flush(mut self, mut batch: Vec<Span>, flush: Flush) {
        loop {
            while batch.len() < BATCH
                && let Ok(span) = self.ended.try_recv()
            {
                batch.push(span);
            }
            if batch.is_empty() {
                break;
            }
            match timeout_at(flush.until, send(&self.client, &self.options, &batch)).await {
                Ok(Ok(())) => batch.clear(),
                Ok(Err(Refusal::ForNow(reason) | Refusal::ForGood(reason))) => {
                    self.lost.note(batch.len() + self.ended.len(), &reason);
                    break;
                }
                Err(_) => {
                    self.lost.note(batch.len() + self.ended.len(), "it did not answer in time");
                    break;
                }
            }
        }
        let _ = flush.done.send(());
    }
}

async fn send(client: &reqwest::Client, options: &OtlpOptions, batch: &[Span]) -> Result<(), Refusal> {
    let body = request(&options.resource, batch);
    let post = client.post(&options.url).header("content-type", "application/x-protobuf").body(body);
    let status = match post.send().await {
        Ok(response) => response.status(),
        Err(error) => return Err(Refusal::ForNow(causes(&error.without_url()))),
    };
    let reason = || format!("the collector answered {status}");
    match status {
        _ if status.is_success() => Ok(()),
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => Err(Refusal::ForNow(reason())),
        _ => Err(Refusal::ForGood(reason())),
    }
}

fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = error.to_string();
        source = error.source();
    }
    text
}
