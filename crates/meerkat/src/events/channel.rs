//! The events of one session: assigns sequence numbers and retains the latest events.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use meerkat_core::{AgentEvent, EventEnvelope, EventId, EventSource, SessionId, Timestamp};
use tokio::sync::{Notify, broadcast};
use uuid::Uuid;

use super::size::estimated_size;

/// Maximum number of retained events of a session.
const MAX_EVENTS: usize = 1000;
/// Maximum size of a session's retained events, in bytes.
const MAX_BYTES: usize = 1 << 20;
/// Size of events that a session may always retain, regardless of the number of sessions, in bytes.
const MIN_BYTES: usize = 8 << 10;
/// Target size of the retained events of all sessions, in bytes.
pub(super) const TOTAL_BYTES: usize = 12 << 20;

/// Message for a reader whose `after` is not the number of an event of this process.
const UNKNOWN_AFTER: &str = "`after` is not the number of an event of this session in this process; events since \
    then may be lost, and the retained events follow";

/// Sender to all subscribers of the process.
pub(super) type Subscribers = broadcast::Sender<Arc<EventEnvelope>>;

/// Totals of all channels.
#[derive(Debug, Default)]
pub(super) struct ChannelTotals {
    pub(super) bytes: AtomicUsize,
    pub(super) channels: AtomicUsize,
}

/// The events of one session.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) session: SessionId,
    load: Arc<ChannelTotals>,
    state: Mutex<State>,
    /// Notified when there is something to read, or when the channel ends.
    pub(super) wakeup: Notify,
}

#[derive(Debug)]
struct State {
    retained: VecDeque<(Arc<EventEnvelope>, usize)>,
    bytes: usize,
    /// The first sequence number of this channel.
    first: u64,
    next: u64,
    runs: usize,
    streams: usize,
    ended: bool,
    idle_since: Timestamp,
}

/// Limit of one read; at least one event is always returned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadLimit {
    pub(crate) events: usize,
    pub(crate) bytes: usize,
}

/// Result of reading a channel.
pub(super) enum ReadResult {
    /// Events, and the sequence number to read next.
    Events(Vec<Arc<EventEnvelope>>, u64),
    /// No events yet.
    Nothing,
    /// No events, and none will follow.
    End,
}

impl Channel {
    pub(super) fn new(session: SessionId, first: u64, load: Arc<ChannelTotals>, now: Timestamp) -> Self {
        load.channels.fetch_add(1, Ordering::Relaxed);
        let state = State {
            retained: VecDeque::new(),
            bytes: 0,
            first,
            next: first,
            runs: 0,
            streams: 0,
            ended: false,
            idle_since: now,
        };
        Self { session, load, state: Mutex::new(state), wakeup: Notify::new() }
    }

    /// Assigns a sequence number to an event, retains it, and sends it to all readers and subscribers, in the order of
    /// sequence numbers.
    pub(super) fn publish(
        &self,
        payload: AgentEvent,
        now: Timestamp,
        watchers: Option<&Subscribers>,
    ) -> Arc<EventEnvelope> {
        let size = estimated_size(&payload);
        let mut state = self.state();
        let event = Arc::new(envelope(self.session, state.next, now, payload));
        state.next += 1;
        state.retained.push_back((Arc::clone(&event), size));
        state.bytes += size;
        self.load.bytes.fetch_add(size, Ordering::Relaxed);
        state.trim(&self.load);
        if let Some(watchers) = watchers {
            // Sending fails only without subscribers.
            let _ = watchers.send(Arc::clone(&event));
        }
        drop(state);
        self.wakeup.notify_waiters();
        event
    }

    /// Reads events from a sequence number. Lost events, or a gap that was not reported yet, are reported by one event
    /// before the others.
    pub(super) fn read(&self, from: u64, gap: Option<&str>, limit: ReadLimit, now: Timestamp) -> ReadResult {
        let state = self.state();
        let oldest = state.oldest();
        let start = from.max(oldest);
        let mut events = Vec::new();
        if let Some(reason) = gap.map(str::to_owned).or_else(|| state.loss_message(from)) {
            let notice = AgentEvent::StreamTruncated { reason };
            events.push(Arc::new(envelope(self.session, start - 1, now, notice)));
        }
        let skip = usize::try_from(start - oldest).unwrap_or(usize::MAX);
        let before = events.len();
        let mut bytes = 0;
        for (event, size) in state.retained.iter().skip(skip).take(limit.events.saturating_sub(before)) {
            bytes += size;
            if bytes > limit.bytes && !events.is_empty() {
                break;
            }
            events.push(Arc::clone(event));
        }
        match (events.is_empty(), state.ended) {
            (false, _) => {
                let next = start + (events.len() - before) as u64;
                ReadResult::Events(events, next)
            }
            (true, false) => ReadResult::Nothing,
            (true, true) => ReadResult::End,
        }
    }

    /// Returns the first sequence number of a stream of events after `after`, or from now on, and a message for its
    /// reader about a gap, if any.
    pub(super) fn start_position(&self, after: Option<u64>) -> (u64, Option<&'static str>) {
        let state = self.state();
        match after {
            None => (state.next, None),
            Some(after) if after >= state.next => (state.oldest(), Some(UNKNOWN_AFTER)),
            Some(after) => (after + 1, None),
        }
    }

    pub(super) fn run_started(&self) {
        self.state().runs += 1;
    }

    pub(super) fn run_ended(&self, now: Timestamp) {
        let mut state = self.state();
        state.runs = state.runs.saturating_sub(1);
        state.idle_since = now;
    }

    pub(super) fn stream_opened(&self) {
        self.state().streams += 1;
    }

    pub(super) fn stream_closed(&self, now: Timestamp) {
        let mut state = self.state();
        state.streams = state.streams.saturating_sub(1);
        state.idle_since = state.idle_since.max(now);
        state.trim(&self.load);
    }

    /// Ends the channel: no more events will follow.
    pub(super) fn end(&self) {
        self.state().ended = true;
        self.wakeup.notify_waiters();
    }

    /// Returns when the channel was last in use, or `None` while a run or a stream uses it.
    pub(super) fn idle_since(&self) -> Option<Timestamp> {
        let state = self.state();
        (state.runs == 0 && state.streams == 0).then_some(state.idle_since)
    }

    /// Returns `true` if the channel can be dropped without losing anything.
    pub(super) fn is_removable(&self) -> bool {
        let state = self.state();
        state.runs == 0 && state.streams == 0 && (state.retained.is_empty() || state.ended)
    }

    /// Returns the sequence number of the next event.
    pub(super) fn next(&self) -> u64 {
        self.state().next
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        let bytes = self.state().bytes;
        self.load.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.load.channels.fetch_sub(1, Ordering::Relaxed);
    }
}

impl State {
    /// Returns the sequence number of the oldest retained event, or of the next event if none is retained.
    fn oldest(&self) -> u64 {
        self.next - self.retained.len() as u64
    }

    /// Returns a message about the events that a reader starting at a sequence number has lost, if any.
    fn loss_message(&self, from: u64) -> Option<String> {
        let lost = self.oldest().checked_sub(from).filter(|lost| *lost > 0)?;
        Some(match lost {
            _ if from < self.first => "earlier events are no longer retained".to_owned(),
            1 => "1 event was lost because it was not read in time".to_owned(),
            lost => format!("{lost} events were lost because they were not read in time"),
        })
    }

    /// Drops the oldest events. The last one always stays, so that waiting readers get it.
    fn trim(&mut self, load: &ChannelTotals) {
        let allowance = match self.streams {
            0 => TOTAL_BYTES / load.channels.load(Ordering::Relaxed).max(1),
            _ => MAX_BYTES,
        };
        let allowance = allowance.clamp(MIN_BYTES, MAX_BYTES);
        while self.retained.len() > MAX_EVENTS || (self.bytes > allowance && self.retained.len() > 1) {
            let Some((_, size)) = self.retained.pop_front() else { return };
            self.bytes -= size;
            load.bytes.fetch_sub(size, Ordering::Relaxed);
        }
    }
}

fn envelope(session: SessionId, seq: u64, now: Timestamp, payload: AgentEvent) -> EventEnvelope {
    EventEnvelope {
        event_id: EventId::from_uuid(Uuid::now_v7()),
        source: EventSource::Session { session_id: session },
        source_id: format!("session:{session}"),
        seq,
        mob_id: None,
        timestamp_ms: now.as_millisecond(),
        payload,
    }
}
