//! The events of one session: numbered, and the latest of them kept.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use meerkat_core::{AgentEvent, EventEnvelope, EventId, EventSource, SessionId, Timestamp};
use tokio::sync::{Notify, broadcast};
use uuid::Uuid;

use super::weight::weight;

/// How many events of a session are kept.
const MAX_EVENTS: usize = 1000;
/// How many bytes of events a session may keep.
const MAX_BYTES: usize = 1 << 20;
/// How many bytes of events a session may always keep, however many sessions there are.
const MIN_BYTES: usize = 8 << 10;
/// How many bytes all sessions should keep together.
pub(super) const TOTAL_BYTES: usize = 16 << 20;

/// Told to a reader whose number no event of the session has here.
const UNHEARD_OF: &str = "no event of this session has the number of `after` here, because another process gave it; \
    the events between are lost, and what is still kept follows";

/// Where every watcher of the process listens.
pub(super) type Watchers = broadcast::Sender<Arc<EventEnvelope>>;

/// What all channels keep together.
#[derive(Debug, Default)]
pub(super) struct Load {
    pub(super) bytes: AtomicUsize,
    pub(super) channels: AtomicUsize,
}

/// The events of one session.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) session: SessionId,
    load: Arc<Load>,
    state: Mutex<State>,
    /// Rings when something is to be read, or nothing ever will be.
    pub(super) news: Notify,
}

#[derive(Debug)]
struct State {
    kept: VecDeque<(Arc<EventEnvelope>, usize)>,
    bytes: usize,
    /// The number of the first event this channel could have seen.
    begins: u64,
    next: u64,
    runs: usize,
    streams: usize,
    ended: bool,
    idle_since: Timestamp,
}

/// How much a reader takes at once; one event is always taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    pub(crate) events: usize,
    pub(crate) bytes: usize,
}

/// What a reader finds.
pub(super) enum Found {
    /// Events, and the number to read from next.
    Events(Vec<Arc<EventEnvelope>>, u64),
    /// Nothing yet.
    Nothing,
    /// Nothing, and nothing will come.
    End,
}

impl Channel {
    pub(super) fn new(session: SessionId, begins: u64, load: Arc<Load>, now: Timestamp) -> Self {
        load.channels.fetch_add(1, Ordering::Relaxed);
        let state = State {
            kept: VecDeque::new(),
            bytes: 0,
            begins,
            next: begins,
            runs: 0,
            streams: 0,
            ended: false,
            idle_since: now,
        };
        Self { session, load, state: Mutex::new(state), news: Notify::new() }
    }

    /// Numbers an event, keeps it and tells everybody. The order of numbers is the order in which it is told.
    pub(super) fn publish(
        &self,
        payload: AgentEvent,
        now: Timestamp,
        watchers: Option<&Watchers>,
    ) -> Arc<EventEnvelope> {
        let weight = weight(&payload);
        let mut state = self.state();
        let event = Arc::new(envelope(self.session, state.next, now, payload));
        state.next += 1;
        state.kept.push_back((Arc::clone(&event), weight));
        state.bytes += weight;
        self.load.bytes.fetch_add(weight, Ordering::Relaxed);
        state.trim(&self.load);
        if let Some(watchers) = watchers {
            // An error means that nobody watches any more.
            let _ = watchers.send(Arc::clone(&event));
        }
        drop(state);
        self.news.notify_waiters();
        event
    }

    /// Reads from a number on. What is no longer kept, or the gap that the reader is not told of, is made up for
    /// by one event that says so.
    pub(super) fn read(&self, from: u64, gap: Option<&str>, room: Room, now: Timestamp) -> Found {
        let state = self.state();
        let oldest = state.oldest();
        let start = from.max(oldest);
        let mut events = Vec::new();
        if let Some(reason) = gap.map(str::to_owned).or_else(|| state.loss(from)) {
            let notice = AgentEvent::StreamTruncated { reason };
            events.push(Arc::new(envelope(self.session, start - 1, now, notice)));
        }
        let skip = usize::try_from(start - oldest).unwrap_or(usize::MAX);
        let before = events.len();
        let mut bytes = 0;
        for (event, weight) in state.kept.iter().skip(skip).take(room.events.saturating_sub(before)) {
            bytes += weight;
            if bytes > room.bytes && !events.is_empty() {
                break;
            }
            events.push(Arc::clone(event));
        }
        match (events.is_empty(), state.ended) {
            (false, _) => {
                let next = start + (events.len() - before) as u64;
                Found::Events(events, next)
            }
            (true, false) => Found::Nothing,
            (true, true) => Found::End,
        }
    }

    /// Says where a stream begins that wants what comes after a number, or what comes from now on, and what its
    /// reader must be told about that.
    pub(super) fn place(&self, after: Option<u64>) -> (u64, Option<&'static str>) {
        let state = self.state();
        match after {
            None => (state.next, None),
            Some(after) if after >= state.next => (state.oldest(), Some(UNHEARD_OF)),
            Some(after) => (after + 1, None),
        }
    }

    pub(super) fn run_begins(&self) {
        self.state().runs += 1;
    }

    pub(super) fn run_ends(&self, now: Timestamp) {
        let mut state = self.state();
        state.runs = state.runs.saturating_sub(1);
        state.idle_since = now;
    }

    pub(super) fn stream_opens(&self) {
        self.state().streams += 1;
    }

    pub(super) fn stream_closes(&self, now: Timestamp) {
        let mut state = self.state();
        state.streams = state.streams.saturating_sub(1);
        state.idle_since = state.idle_since.max(now);
        state.trim(&self.load);
    }

    /// Nothing will come any more.
    pub(super) fn end(&self) {
        self.state().ended = true;
        self.news.notify_waiters();
    }

    /// Says since when nobody has needed the channel; `None` while somebody does.
    pub(super) fn idle_since(&self) -> Option<Timestamp> {
        let state = self.state();
        (state.runs == 0 && state.streams == 0).then_some(state.idle_since)
    }

    /// Says whether nothing would be lost with the channel.
    pub(super) fn is_blank(&self) -> bool {
        let state = self.state();
        state.runs == 0 && state.streams == 0 && (state.kept.is_empty() || state.ended)
    }

    /// Returns the number of the next event.
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
    /// Returns the number of the oldest event that is kept, or of the next one if none is.
    fn oldest(&self) -> u64 {
        self.next - self.kept.len() as u64
    }

    /// Says what is lost to a reader that wants all from a number on.
    fn loss(&self, from: u64) -> Option<String> {
        let lost = self.oldest().checked_sub(from).filter(|lost| *lost > 0)?;
        Some(match lost {
            _ if from < self.begins => "the events before this are no longer kept".to_owned(),
            1 => "1 event was lost because it was not read in time".to_owned(),
            lost => format!("{lost} events were lost because they were not read in time"),
        })
    }

    /// Lets the oldest events go; the last one always stays, so that whoever waits for it gets it.
    fn trim(&mut self, load: &Load) {
        let allowance = match self.streams {
            0 => TOTAL_BYTES / load.channels.load(Ordering::Relaxed).max(1),
            _ => MAX_BYTES,
        };
        let allowance = allowance.clamp(MIN_BYTES, MAX_BYTES);
        while self.kept.len() > MAX_EVENTS || (self.bytes > allowance && self.kept.len() > 1) {
            let Some((_, weight)) = self.kept.pop_front() else { return };
            self.bytes -= weight;
            load.bytes.fetch_sub(weight, Ordering::Relaxed);
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
