//! The event bus of this process: each session has a channel, each reader a stream.
//!
//! A channel remains for a while after its session's last run, so that a late reader can catch up. The total size of
//! all channels is bounded; those idle longest are dropped first.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use meerkat_core::{AgentEvent, Clock, EventEnvelope, SessionId, StreamId};
use tokio::runtime::Handle;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::channel::{Channel, ChannelTotals, ReadLimit, Subscribers, TOTAL_BYTES};
use super::error::StreamError;
use super::stream::{ReadOutcome, Stream};
use super::streams::{Streams, has_elapsed};

/// Number of events that a subscriber may lag behind.
const SUBSCRIBER_CAPACITY: usize = 4096;
/// Sequence number of a session's first event; reading after 0 includes it.
const FIRST_SEQ: u64 = 1;
/// Time for which the events of an idle session are retained.
const RETENTION: Duration = Duration::from_secs(10 * 60);
/// Interval between checks for idle channels and unread streams.
const REAP_INTERVAL: Duration = Duration::from_secs(60);

/// All events of this process.
#[derive(Clone)]
pub(crate) struct EventBus {
    inner: Arc<Inner>,
}

struct Inner {
    clock: Arc<dyn Clock>,
    load: Arc<ChannelTotals>,
    channels: Mutex<Channels>,
    streams: Mutex<Streams>,
    watchers: OnceLock<Subscribers>,
    closing: CancellationToken,
}

#[derive(Default)]
struct Channels {
    open: HashMap<SessionId, Arc<Channel>>,
    /// Sequence number above all those of removed channels and of earlier processes.
    floor: u64,
    has_reaper: bool,
}

/// Events that a session may have had before its channel was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PriorEvents {
    /// None: the session is new.
    None,
    /// Unknown.
    Unknown,
}

/// A session's channel, held by a run.
pub(crate) struct RunChannel {
    hub: EventBus,
    channel: Arc<Channel>,
}

impl EventBus {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        // A process emits less than one event per microsecond, so a later process starts above all its numbers.
        let floor = u64::try_from(clock.now().as_microsecond()).unwrap_or(0).max(FIRST_SEQ);
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

    /// Subscribes to all events from now on.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Arc<EventEnvelope>> {
        self.inner.watchers.get_or_init(|| broadcast::Sender::new(SUBSCRIBER_CAPACITY)).subscribe()
    }

    /// Returns a session's channel for a run.
    pub(crate) fn open_channel(&self, session: SessionId, past: PriorEvents) -> RunChannel {
        let mut channels = self.inner.channels();
        let channel = self.inner.channel(&mut channels, session, past);
        channel.run_started();
        RunChannel { hub: self.clone(), channel }
    }

    /// Opens a stream of a session's events after a sequence number, or from now on.
    pub(crate) fn open(&self, session: SessionId, after: Option<u64>) -> Result<StreamId, StreamError> {
        let inner = &self.inner;
        let now = inner.clock.now();
        let mut streams = inner.streams();
        streams.ensure_capacity(now)?;
        let mut channels = inner.channels();
        let channel = inner.channel(&mut channels, session, PriorEvents::Unknown);
        let id = StreamId::from_uuid(Uuid::now_v7());
        streams.add(id, Stream::open(channel, after, now));
        drop((streams, channels));
        self.ensure_reaper();
        Ok(id)
    }

    /// Reads a stream: available events, or else the next ones. A cancelled or dropped read consumes nothing.
    pub(crate) async fn read(
        &self,
        id: StreamId,
        limit: ReadLimit,
        timeout: Duration,
        cancel: &CancellationToken,
    ) -> Result<ReadOutcome, StreamError> {
        let inner = &self.inner;
        let stream = inner.streams().find(id)?;
        let _reader = stream.reader();
        let mut deadline = inner.clock.sleep(timeout);
        loop {
            let mut notified = pin!(stream.channel.wakeup.notified());
            notified.as_mut().enable();
            if cancel.is_cancelled() {
                return Ok(ReadOutcome::Timeout);
            }
            if let Some(outcome) = stream.take(limit, inner.clock.now()) {
                if outcome == ReadOutcome::Closed {
                    self.close(id);
                }
                return Ok(outcome);
            }
            tokio::select! {
                () = notified => {}
                () = cancel.cancelled() => return Ok(ReadOutcome::Timeout),
                () = inner.closing.cancelled() => return Ok(ReadOutcome::Closed),
                () = &mut deadline => return Ok(ReadOutcome::Timeout),
            }
        }
    }

    /// Returns the session of a stream.
    pub(crate) fn session(&self, id: StreamId) -> Result<SessionId, StreamError> {
        self.inner.streams().find(id).map(|stream| stream.channel.session)
    }

    /// Closes a stream; returns `false` if it was not open.
    pub(crate) fn close(&self, id: StreamId) -> bool {
        let Some(stream) = self.inner.streams().remove(id) else { return false };
        stream.channel.stream_closed(self.inner.clock.now());
        self.inner.remove_if_blank(&stream.channel);
        true
    }

    /// Ends a session's channel: no more events will follow.
    pub(crate) fn end_session(&self, session: SessionId) {
        let channel = self.inner.channels().open.get(&session).cloned();
        if let Some(channel) = channel {
            channel.end();
            self.inner.remove_if_blank(&channel);
        }
    }

    /// Closes all streams for good.
    pub(crate) fn close_all(&self) {
        self.inner.closing.cancel();
    }

    #[cfg(test)]
    pub(super) fn load(&self) -> &ChannelTotals {
        &self.inner.load
    }

    /// Starts the task that drops idle channels and unread streams, unless it is already running.
    fn ensure_reaper(&self) {
        let Ok(runtime) = Handle::try_current() else { return };
        // The lock is released before the task is spawned: on a runtime that shuts down, the task is dropped at once,
        // which takes the lock.
        let has_reaper = std::mem::replace(&mut self.inner.channels().has_reaper, true);
        if !has_reaper {
            let (inner, clock) = (Arc::downgrade(&self.inner), Arc::clone(&self.inner.clock));
            runtime.spawn(reap(ReaperGuard { inner, finished: false }, clock));
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

    fn channel(&self, channels: &mut Channels, session: SessionId, past: PriorEvents) -> Arc<Channel> {
        // A session whose channel was removed has used numbers below the floor; its next ones must be higher.
        let first = if past == PriorEvents::None { FIRST_SEQ } else { channels.floor };
        let new = || Arc::new(Channel::new(session, first, Arc::clone(&self.load), self.clock.now()));
        Arc::clone(channels.open.entry(session).or_insert_with(new))
    }

    fn remove_if_blank(&self, channel: &Channel) {
        let mut channels = self.channels();
        if channel.is_removable() {
            channels.remove(channel.session);
        }
    }

    /// Drops channels that were idle for too long, and more if the total size is too large.
    fn drop_idle(&self) {
        let now = self.clock.now();
        let mut channels = self.channels();
        let since = |channel: &Arc<Channel>| channel.idle_since().map(|since| (since, channel.session));
        let mut idle: Vec<_> = channels.open.values().filter_map(since).collect();
        idle.sort_unstable();
        for (since, session) in idle {
            let is_full = self.load.bytes.load(Ordering::Relaxed) > TOTAL_BYTES / 4 * 3;
            if !is_full && !has_elapsed(since, RETENTION, now) {
                return;
            }
            channels.remove(session);
        }
    }
}

impl Channels {
    fn remove(&mut self, session: SessionId) {
        if let Some(channel) = self.open.remove(&session) {
            self.floor = self.floor.max(channel.next());
        }
    }
}

/// Clears the flag of the reaper task when the task ends in any way.
struct ReaperGuard {
    inner: Weak<Inner>,
    finished: bool,
}

impl Drop for ReaperGuard {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.upgrade().filter(|_| !self.finished) {
            inner.channels().has_reaper = false;
        }
    }
}

async fn reap(mut guard: ReaperGuard, clock: Arc<dyn Clock>) {
    while !guard.finished {
        clock.sleep(REAP_INTERVAL).await;
        let Some(inner) = guard.inner.upgrade() else { return };
        inner.streams().drop_unread(inner.clock.now());
        inner.drop_idle();
        let mut channels = inner.channels();
        channels.has_reaper = !channels.open.is_empty();
        guard.finished = !channels.has_reaper;
    }
}

impl RunChannel {
    /// Assigns a sequence number to an event, retains it, and sends it to all readers and subscribers.
    pub(crate) fn publish(&self, payload: AgentEvent) -> Arc<EventEnvelope> {
        let inner = &self.hub.inner;
        self.channel.publish(payload, inner.clock.now(), inner.watchers.get())
    }
}

impl Drop for RunChannel {
    fn drop(&mut self) {
        let inner = &self.hub.inner;
        self.channel.run_ended(inner.clock.now());
        inner.remove_if_blank(&self.channel);
        if inner.load.bytes.load(Ordering::Relaxed) > TOTAL_BYTES {
            inner.drop_idle();
        }
        self.hub.ensure_reaper();
    }
}
