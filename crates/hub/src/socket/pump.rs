//! What moves messages through a socket, for a worker at the hub and for a client of one.
//!
//! One task reads and writes, each as far as it can, so that a side that does not read for a while can still be
//! heard. What there is to read is handed over together, and what waits is written in one go: under load that is
//! what a message costs.

use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::{Sink as _, Stream as _};
use tokio::sync::mpsc;
use tokio::time::{Instant, Interval, MissedTickBehavior, Sleep, interval, sleep_until};
use tokio_tungstenite::tungstenite::{Bytes, Error, Message, Utf8Bytes};

use super::Socket;
use crate::wire::holds_telemetry;

/// How often a silent side is asked for a sign of life, and when it counts as dead without one.
const PING: Duration = Duration::from_secs(20);
const SILENCE: Duration = Duration::from_secs(60);
/// How many messages are read before others get their turn.
const TURN: usize = 64;
/// How many bytes are read before they are handed over.
const HANDFUL: usize = 256 * 1024;

/// Who hears what comes in.
pub(crate) trait Ears {
    /// Continues what earlier messages started; no more are read while it is pending.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    /// Messages came, in this order.
    fn hear(&mut self, messages: &[Utf8Bytes]);

    /// A message came that is no text.
    fn garbled(&mut self);
}

/// Where messages are put that are to be written.
#[derive(Debug)]
pub(crate) struct Outbox {
    messages: mpsc::UnboundedSender<String>,
    bytes: Arc<AtomicUsize>,
}

/// Where they wait for that.
#[derive(Debug)]
pub(crate) struct Waiting {
    messages: mpsc::UnboundedReceiver<String>,
    bytes: Arc<AtomicUsize>,
}

impl Outbox {
    pub(crate) fn new() -> (Self, Waiting) {
        let (sender, messages) = mpsc::unbounded_channel();
        let bytes = Arc::new(AtomicUsize::new(0));
        (Self { messages: sender, bytes: Arc::clone(&bytes) }, Waiting { messages, bytes })
    }

    /// Adds a message, and says how many bytes wait now; `None` if nobody will write it.
    pub(crate) fn push(&self, message: String) -> Option<usize> {
        let length = message.len();
        let before = self.bytes.fetch_add(length, Ordering::Relaxed);
        self.messages.send(message).ok().map(|()| before + length)
    }
}

pub(crate) struct Pump<E> {
    pub(crate) socket: Socket,
    ears: E,
    waiting: Waiting,
    heard: Vec<Utf8Bytes>,
    heard_at: Instant,
    writing: Writing,
    ping: Interval,
    pace: Pace,
}

/// How far what waits is on its way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writing {
    /// Nothing waits.
    Idle,
    /// Something waits, and whoever is about to add to it has had a turn to do so.
    Due,
    /// The system does not have everything yet.
    Unflushed,
}

impl<E: Ears> Pump<E> {
    pub(crate) fn new(socket: Socket, waiting: Waiting, ears: E, messages_per_second: u32) -> Self {
        let mut ping = interval(PING);
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (heard, heard_at) = (Vec::new(), Instant::now());
        let pace = Pace::new(messages_per_second);
        Self { socket, ears, waiting, heard, heard_at, writing: Writing::Idle, ping, pace }
    }

    /// Returns when the connection is over.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let was_ready = self.ears.poll_ready(context).is_ready();
        let read = if was_ready { self.read(context) } else { Poll::Pending };
        self.hand_over();
        // What was just handed over may have started something that has to be polled to make progress.
        if self.ears.poll_ready(context).is_ready() && !was_ready {
            context.waker().wake_by_ref();
        }
        if let Poll::Ready(end) = read {
            return Poll::Ready(end);
        }
        while self.ping.poll_tick(context).is_ready() {
            if self.heard_at.elapsed() > SILENCE {
                return Poll::Ready(Ok(()));
            }
            Pin::new(&mut self.socket).start_send(Message::Ping(Bytes::new()))?;
            self.writing = Writing::Unflushed;
        }
        self.write(context)
    }

    fn read(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let mut bytes = 0;
        for _ in 0..TURN {
            if self.pace.poll(context).is_pending() {
                return Poll::Pending;
            }
            match Pin::new(&mut self.socket).poll_next(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error)),
                Poll::Ready(Some(Ok(message))) => {
                    self.pace.count();
                    bytes += message.len();
                    if self.take(message).is_break() {
                        return Poll::Ready(Ok(()));
                    }
                }
            }
            if bytes > HANDFUL {
                break;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    fn take(&mut self, message: Message) -> ControlFlow<()> {
        match message {
            Message::Text(text) => self.heard.push(text),
            Message::Binary(bytes) if holds_telemetry(&bytes) => self.heard_at = Instant::now(),
            Message::Binary(bytes) => match Utf8Bytes::try_from(bytes) {
                Ok(text) => self.heard.push(text),
                Err(_) => self.ears.garbled(),
            },
            // The answer is queued by the library.
            Message::Ping(_) => (self.writing, self.heard_at) = (Writing::Unflushed, Instant::now()),
            Message::Pong(_) | Message::Frame(_) => self.heard_at = Instant::now(),
            Message::Close(_) => return ControlFlow::Break(()),
        }
        ControlFlow::Continue(())
    }

    fn hand_over(&mut self) {
        if !self.heard.is_empty() {
            self.heard_at = Instant::now();
            self.ears.hear(&self.heard);
            self.heard.clear();
        }
    }

    fn write(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if self.writing == Writing::Idle && !self.waiting.messages.is_empty() {
            self.writing = Writing::Due;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        loop {
            match Pin::new(&mut self.socket).poll_ready(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(())) => {}
            }
            match self.waiting.messages.poll_recv(context) {
                Poll::Ready(Some(text)) => {
                    self.waiting.bytes.fetch_sub(text.len(), Ordering::Relaxed);
                    Pin::new(&mut self.socket).start_send(Message::text(text))?;
                    self.writing = Writing::Unflushed;
                }
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Pending => break,
            }
        }
        match self.writing {
            Writing::Unflushed => match Pin::new(&mut self.socket).poll_flush(context) {
                Poll::Ready(Ok(())) => self.writing = Writing::Idle,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {}
            },
            Writing::Idle | Writing::Due => self.writing = Writing::Idle,
        }
        Poll::Pending
    }
}

/// Keeps the other side from saying more in a second than it may; the rest is read later.
struct Pace {
    per_second: u32,
    said: u32,
    since: Instant,
    wait: Option<Pin<Box<Sleep>>>,
}

impl Pace {
    fn new(per_second: u32) -> Self {
        Self { per_second: per_second.max(1), said: 0, since: Instant::now(), wait: None }
    }

    fn count(&mut self) {
        self.said += 1;
        if self.said < self.per_second {
            return;
        }
        let next = self.since + Duration::from_secs(1);
        (self.said, self.since) = (0, next.max(Instant::now()));
        self.wait = (next > Instant::now()).then(|| Box::pin(sleep_until(next)));
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.wait {
            None => Poll::Ready(()),
            Some(wait) => {
                std::task::ready!(wait.as_mut().poll(context));
                self.wait = None;
                Poll::Ready(())
            }
        }
    }
}
