//! Moves messages through a socket, for a worker at the hub and for a client.
//!
//! One task reads and writes, each as much as possible, so that a side that does not read for a while can still send.
//! Available messages are handed over together, and queued messages are written together: under load, this is what a
//! message costs.

use std::ops::ControlFlow;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::{Sink as _, Stream as _};
use tokio::time::{Instant, Interval, MissedTickBehavior, Sleep, interval, sleep_until};
use tokio_tungstenite::tungstenite::{Bytes, Error, Message, Utf8Bytes};

use super::Socket;
use crate::outbox::Waiting;
use crate::wire::holds_telemetry;

/// Interval between pings, and time after which a silent peer counts as dead.
const PING_INTERVAL: Duration = Duration::from_secs(20);
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum number of messages read before yielding to other tasks.
const MAX_READ_MESSAGES: usize = 64;
/// Maximum number of bytes read before they are handed over.
const MAX_READ_BYTES: usize = 256 * 1024;

/// Handler of incoming messages.
pub(crate) trait MessageHandler {
    /// Polls work that earlier messages started; no messages are read while it is pending.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    /// Handles messages, in the order in which they arrived.
    fn on_messages(&mut self, messages: &[Utf8Bytes]);

    /// Handles a message that is not text.
    fn on_binary(&mut self);
}

pub(crate) struct Pump<E> {
    pub(crate) socket: Socket,
    ears: E,
    waiting: Waiting,
    received: Vec<Utf8Bytes>,
    heard_at: Instant,
    writing: Writing,
    ping: Interval,
    pace: RateLimiter,
}

/// Progress of pending output.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writing {
    /// Nothing is pending.
    Idle,
    /// Output is pending, and other tasks have had a turn to add to it.
    Due,
    /// The system has not accepted everything yet.
    Unflushed,
}

impl<E: MessageHandler> Pump<E> {
    pub(crate) fn new(socket: Socket, waiting: Waiting, ears: E, messages_per_second: u32) -> Self {
        let mut ping = interval(PING_INTERVAL);
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (received, heard_at) = (Vec::new(), Instant::now());
        let pace = RateLimiter::new(messages_per_second);
        Self { socket, ears, waiting, received, heard_at, writing: Writing::Idle, ping, pace }
    }

    /// Completes when the connection has ended.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let was_ready = self.ears.poll_ready(context).is_ready();
        let read = if was_ready { self.read(context) } else { Poll::Pending };
        self.hand_over();
        // The messages just handed over may have started work that must be polled to make progress.
        if self.ears.poll_ready(context).is_ready() && !was_ready {
            context.waker().wake_by_ref();
        }
        if let Poll::Ready(end) = read {
            return Poll::Ready(end);
        }
        while self.ping.poll_tick(context).is_ready() {
            if self.heard_at.elapsed() > IDLE_TIMEOUT {
                return Poll::Ready(Ok(()));
            }
            Pin::new(&mut self.socket).start_send(Message::Ping(Bytes::new()))?;
            self.writing = Writing::Unflushed;
        }
        self.write(context)
    }

    fn read(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let mut bytes = 0;
        for _ in 0..MAX_READ_MESSAGES {
            ready!(self.pace.poll(context));
            let Some(message) = ready!(Pin::new(&mut self.socket).poll_next(context)?) else {
                return Poll::Ready(Ok(()));
            };
            self.pace.count();
            bytes += message.len();
            if self.take(message).is_break() {
                return Poll::Ready(Ok(()));
            }
            if bytes > MAX_READ_BYTES {
                break;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    fn take(&mut self, message: Message) -> ControlFlow<()> {
        match message {
            Message::Text(text) => self.received.push(text),
            Message::Binary(bytes) if holds_telemetry(&bytes) => self.heard_at = Instant::now(),
            Message::Binary(bytes) => match Utf8Bytes::try_from(bytes) {
                Ok(text) => self.received.push(text),
                Err(_) => self.ears.on_binary(),
            },
            // The library queues the response.
            Message::Ping(_) => (self.writing, self.heard_at) = (Writing::Unflushed, Instant::now()),
            Message::Pong(_) | Message::Frame(_) => self.heard_at = Instant::now(),
            Message::Close(_) => return ControlFlow::Break(()),
        }
        ControlFlow::Continue(())
    }

    fn hand_over(&mut self) {
        if !self.received.is_empty() {
            self.heard_at = Instant::now();
            self.ears.on_messages(&self.received);
            self.received.clear();
        }
    }

    fn write(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if self.writing == Writing::Idle && !self.waiting.is_empty() {
            self.writing = Writing::Due;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        loop {
            ready!(Pin::new(&mut self.socket).poll_ready(context)?);
            match self.waiting.poll_next(context) {
                Poll::Ready(Some(text)) => {
                    Pin::new(&mut self.socket).start_send(Message::text(text))?;
                    self.writing = Writing::Unflushed;
                }
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Pending => break,
            }
        }
        if self.writing == Writing::Unflushed {
            ready!(Pin::new(&mut self.socket).poll_flush(context)?);
        }
        self.writing = Writing::Idle;
        Poll::Pending
    }
}

/// Limits the messages read per second; the rest are read later.
struct RateLimiter {
    per_second: u32,
    counted: u32,
    since: Instant,
    wait: Option<Pin<Box<Sleep>>>,
}

impl RateLimiter {
    fn new(per_second: u32) -> Self {
        Self { per_second: per_second.max(1), counted: 0, since: Instant::now(), wait: None }
    }

    fn count(&mut self) {
        self.counted += 1;
        if self.counted < self.per_second {
            return;
        }
        let next = self.since + Duration::from_secs(1);
        (self.counted, self.since) = (0, next.max(Instant::now()));
        self.wait = (next > Instant::now()).then(|| Box::pin(sleep_until(next)));
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Some(wait) = &mut self.wait {
            ready!(wait.as_mut().poll(context));
            self.wait = None;
        }
        Poll::Ready(())
    }
}
