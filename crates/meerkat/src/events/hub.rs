//! Where all events of this process pass: each session has a channel here, each reader a stream.
//!
//! A channel stays for a while after its session's last run, so that a reader that comes late can catch up. All
//! channels together keep a bounded number of bytes: those that have been idle longest go first.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use meerkat_core::{AgentEvent, Clock, EventEnvelope, SessionId};
use tokio::runtime::Handle;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::channel::{Channel, Load, Room, TOTAL_BYTES, Watchers};
use super::stream::{Reading, Stream, StreamId};
use super::streams::{Streams, is_over};
use crate::Error;

/// How many events a watcher may lag behind.
const WATCHED: usize = 4096;
/// The number of a session's first event: `after` 0 gives it too.
const FIRST: u64 = 1;
/// How long the events of an idle session are kept.
const KEEP: Duration = Duration::from_secs(10 * 60);
/// How often idle channels and unread streams are looked for.
const ROUND: Duration = Duration::from_secs(60);

/// All events of this process.
#[derive(Clone)]
pub(crate) struct EventHub {
    inner: Arc<Inner>,
}

struct Inner {
    clock: Arc<dyn Clock>,
    load: Arc<Load>,
    channels: Mutex<Channels>,
    streams: Mutex<Streams>,
    watchers: OnceLock<Watchers>,
    closing: CancellationToken,
}

#[derive(Default)]
struct Channels {
    open: HashMap<SessionId, Arc<Channel>>,
    /// No event that was told before, in this process or in one before it, has a number as high as this.
    floor: u64,
    tended: bool,
}

/// What a session may have told before its channel was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Past {
    /// Nothing: it is new.
    None,
    /// Who knows.
    Unknown,
}

/// A session's channel, held by a run.
pub(crate) struct RunChannel {
    hub: EventHub,
    channel: Arc<Channel>,
}

impl EventHub {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        // A process tells fewer events than microseconds pass, so that a later one begins above all its numbers.
        let floor = u64::try_from(clock.now().as_microsecond()).unwrap_or(0).max(FIRST);
        let inner = Inner {
            clock,
            load: Arc::default(),
            channels: Mutex::new(Channels { floor, ..Channels::default() }),
            streams: Mutex::default(),
            watchers: OnceLock::new(),
            closing: CancellationToken::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Hears all events from now on.
    pub(crate) fn watch(&self) -> broadcast::Receiver<Arc<EventEnvelope>> {
        self.inner.watchers.get_or_init(|| broadcast::Sender::new(WATCHED)).subscribe()
    }

    /// Takes a session's channel for a run.
    pub(crate) fn run(&self, session: SessionId, past: Past) -> RunChannel {
        let mut channels = self.inner.channels();
        let channel = self.inner.channel(&mut channels, session, past);
        channel.run_begins();
        RunChannel { hub: self.clone(), channel }
    }

    /// Opens a stream of what a session tells after a number, or from now on.
    pub(crate) fn open(&self, session: SessionId, after: Option<u64>) -> Result<StreamId, Error> {
        let inner = &self.inner;
        let now = inner.clock.now();
        let mut streams = inner.streams();
        streams.make_room(now)?;
        let mut channels = inner.channels();
        let channel = inner.channel(&mut channels, session, Past::Unknown);
        let id = Uuid::now_v7();
        streams.add(id, Stream::open(channel, after, now));
        drop((streams, channels));
        self.tend();
        Ok(id)
    }

    /// Reads a stream: what is there, else what comes. A read that is cancelled or dropped takes nothing.
    pub(crate) async fn read(
        &self,
        id: StreamId,
        room: Room,
        patience: Duration,
        cancel: &CancellationToken,
    ) -> Result<Reading, Error> {
        let inner = &self.inner;
        let stream = inner.streams().find(id)?;
        let _reader = stream.reader();
        let mut deadline = inner.clock.sleep(patience);
        loop {
            let mut news = pin!(stream.channel.news.notified());
            news.as_mut().enable();
            if cancel.is_cancelled() {
                return Ok(Reading::Timeout);
            }
            if let Some(reading) = stream.take(room, inner.clock.now()) {
                if reading == Reading::Closed {
                    self.close(id);
                }
                return Ok(reading);
            }
            tokio::select! {
                () = news => {}
                () = cancel.cancelled() => return Ok(Reading::Timeout),
                () = inner.closing.cancelled() => return Ok(Reading::Closed),
                () = &mut deadline => return Ok(Reading::Timeout),
            }
        }
    }

    /// Says which session a stream is of.
    pub(crate) fn session(&self, id: StreamId) -> Result<SessionId, Error> {
        self.inner.streams().find(id).map(|stream| stream.channel.session)
    }

    /// Closes a stream; false when there is none.
    pub(crate) fn close(&self, id: StreamId) -> bool {
        let Some(stream) = self.inner.streams().remove(id) else { return false };
        stream.channel.stream_closes(self.inner.clock.now());
        self.inner.let_go_if_blank(&stream.channel);
        true
    }

    /// A session tells nothing any more.
    pub(crate) fn end(&self, session: SessionId) {
        let channel = self.inner.channels().open.get(&session).cloned();
        if let Some(channel) = channel {
            channel.end();
            self.inner.let_go_if_blank(&channel);
        }
    }

    /// Nobody will be told anything any more.
    pub(crate) fn shut(&self) {
        self.inner.closing.cancel();
    }

    #[cfg(test)]
    pub(super) fn load(&self) -> &Load {
        &self.inner.load
    }

    /// Starts the task that lets go of what nobody needs, unless there is one.
    fn tend(&self) {
        let Ok(runtime) = Handle::try_current() else { return };
        // The lock is free again before the task is spawned: on a runtime that shuts down the task is dropped at
        // once, and takes the lock itself.
        let tended = std::mem::replace(&mut self.inner.channels().tended, true);
        if !tended {
            let (inner, clock) = (Arc::downgrade(&self.inner), Arc::clone(&self.inner.clock));
            runtime.spawn(tend(Tending { inner, left: false }, clock));
        }
    }
}

impl Inner {
    fn channels(&self) -> MutexGuard<'_, Channels> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn streams(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn channel(&self, channels: &mut Channels, session: SessionId, past: Past) -> Arc<Channel> {
        // A session that was let go told numbers below the floor, and its next ones must be higher.
        let begins = if past == Past::None { FIRST } else { channels.floor };
        let new = || Arc::new(Channel::new(session, begins, Arc::clone(&self.load), self.clock.now()));
        Arc::clone(channels.open.entry(session).or_insert_with(new))
    }

    fn let_go_if_blank(&self, channel: &Channel) {
        let mut channels = self.channels();
        if channel.is_blank() {
            channels.let_go(channel.session);
        }
    }

    /// Lets go of channels that were idle for long, and of more if all together keep too much.
    fn drop_idle(&self) {
        let now = self.clock.now();
        let mut channels = self.channels();
        let since = |channel: &Arc<Channel>| channel.idle_since().map(|since| (since, channel.session));
        let mut idle: Vec<_> = channels.open.values().filter_map(since).collect();
        idle.sort_unstable();
        for (since, session) in idle {
            let full = self.load.bytes.load(Ordering::Relaxed) > TOTAL_BYTES / 4 * 3;
            if !full && !is_over(since, KEEP, now) {
                return;
            }
            channels.let_go(session);
        }
    }
}

impl Channels {
    fn let_go(&mut self, session: SessionId) {
        if let Some(channel) = self.open.remove(&session) {
            self.floor = self.floor.max(channel.next());
        }
    }
}

/// The tending task's place, which is free again however the task ends.
struct Tending {
    inner: Weak<Inner>,
    left: bool,
}

impl Drop for Tending {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.upgrade().filter(|_| !self.left) {
            inner.channels().tended = false;
        }
    }
}

async fn tend(mut place: Tending, clock: Arc<dyn Clock>) {
    while !place.left {
        clock.sleep(ROUND).await;
        let Some(inner) = place.inner.upgrade() else { return };
        inner.streams().drop_unread(inner.clock.now());
        inner.drop_idle();
        let mut channels = inner.channels();
        channels.tended = !channels.open.is_empty();
        place.left = !channels.tended;
    }
}

impl RunChannel {
    /// Numbers an event, keeps it and tells everybody.
    pub(crate) fn publish(&self, payload: AgentEvent) -> Arc<EventEnvelope> {
        let inner = &self.hub.inner;
        self.channel.publish(payload, inner.clock.now(), inner.watchers.get())
    }
}

impl Drop for RunChannel {
    fn drop(&mut self) {
        let inner = &self.hub.inner;
        self.channel.run_ends(inner.clock.now());
        inner.let_go_if_blank(&self.channel);
        if inner.load.bytes.load(Ordering::Relaxed) > TOTAL_BYTES {
            inner.drop_idle();
        }
        self.hub.tend();
    }
}
