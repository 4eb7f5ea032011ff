//! Log of one stream: its latest events, the read position, and the waiting readers.

use std::collections::VecDeque;
use std::task::Waker;
use std::time::Instant;

use rmcp::ErrorData;
use rmcp::model::{JsonRpcMessage, ServerJsonRpcMessage, ServerNotification};
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId};
use tokio::sync::watch;

use super::{Bounds, StreamId, event_id, size};

/// Maximum number of unread events, and of their bytes, for a slow client.
const MAX_UNREAD: usize = 64;
const MAX_UNREAD_BYTES: usize = 1024 * 1024;

/// Log of one stream. Its events are numbered from 1.
pub(super) struct Log {
    pub(super) session: SessionId,
    /// Number of the first retained event.
    pub(super) first: u64,
    /// Number from which on all dropped events were superseded, so that no reader misses them.
    lossless_from: u64,
    events: VecDeque<Event>,
    pub(super) bytes: usize,
    /// Number of outstanding responses. A session's own stream waits for one that never arrives.
    pub(super) unanswered: usize,
    pub(super) has_answers: bool,
    pub(super) ended: Option<Instant>,
    pub(super) followers: usize,
    /// Number of the first unread event.
    unread_from: u64,
    /// Whether the readers have not read for so long that writers no longer wait for them.
    pub(super) is_stalled: bool,
    wakers: Vec<Waker>,
    /// Signals that an event was read; closed when the log is removed.
    pub(super) room: watch::Sender<()>,
}

struct Event {
    /// The message, unless a later event reports the same change again.
    message: Option<ServerSseMessage>,
    bytes: usize,
    at: Instant,
    /// Whether it was dropped once already, and was retained as an error.
    is_evicted: bool,
}

impl Event {
    /// Returns a copy, if it is the response to a request.
    fn answer(&self) -> Option<Self> {
        let message = self.message.clone()?;
        let is_answer = matches!(
            message.message.as_deref(),
            Some(JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_))
        );
        is_answer.then_some(Self { message: Some(message), ..*self })
    }

    /// Replaces a long response by an error.
    fn shorten(&mut self) {
        let error = self.message.as_ref().and_then(evicted);
        if let Some((message, bytes)) = error.filter(|(_, bytes)| *bytes < self.bytes) {
            (self.message, self.bytes) = (Some(message), bytes);
        }
    }
}

impl Log {
    pub(super) fn new(session: SessionId, unanswered: usize) -> Self {
        Self {
            session,
            first: 1,
            lossless_from: 1,
            events: VecDeque::new(),
            bytes: 0,
            unanswered,
            has_answers: false,
            ended: None,
            followers: 0,
            unread_from: 1,
            is_stalled: false,
            wakers: Vec::new(),
            room: watch::Sender::new(()),
        }
    }

    /// Returns the number of the next event.
    pub(super) fn next(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    /// Returns `true` if another event can be added without dropping one that is about to be read.
    pub(super) fn has_room(&self) -> bool {
        if self.followers == 0 || self.is_stalled {
            return true;
        }
        let (count, bytes) =
            self.unread().fold((0, 0), |(count, bytes), event| (count + 1, bytes + event.bytes));
        count < MAX_UNREAD && bytes < MAX_UNREAD_BYTES
    }

    /// Drops the oldest events over the limits and adds one. Returns `false` if an unread event already reports the same
    /// change.
    pub(super) fn push(&mut self, message: ServerSseMessage, bytes: usize, bounds: &Bounds) -> bool {
        if let Some(changed) = change(&message) {
            if self.unread().any(|event| event.message.as_ref().and_then(change) == Some(changed)) {
                return false;
            }
            self.supersede(changed);
        }
        for _ in 0..self.events.len() {
            if self.events.len() < bounds.events && self.bytes + bytes <= bounds.each {
                break;
            }
            self.retire_oldest();
        }
        while self.events.len() >= bounds.events.max(1) {
            self.drop_oldest();
        }
        self.events.push_back(Event { message: Some(message), bytes, at: Instant::now(), is_evicted: false });
        self.bytes += bytes;
        self.wake();
        true
    }

    /// Removes the earlier reports of a change.
    fn supersede(&mut self, changed: (&str, &str)) {
        for event in &mut self.events {
            if event.message.as_ref().and_then(change) == Some(changed) {
                event.message = None;
                self.bytes -= std::mem::take(&mut event.bytes);
            }
        }
        while self.events.front().is_some_and(|event| event.message.is_none()) {
            self.drop_oldest();
        }
    }

    /// Returns the number of the first event from a number on that was not superseded.
    pub(super) fn skip_superseded(&self, number: u64) -> u64 {
        if number < self.lossless_from {
            return number;
        }
        let number = number.max(self.first);
        let retained = self.events.iter().skip(index(number, self.first));
        number + retained.take_while(|event| event.message.is_none()).count() as u64
    }

    fn unread(&self) -> impl Iterator<Item = &Event> {
        self.events.iter().skip(index(self.unread_from, self.first))
    }

    /// Drops an event to free memory. An unread response becomes an error, because its request must be answered. Returns
    /// `true` if there is one; it is dropped the next time without `keep_errors`, or if no client reads the stream.
    pub(super) fn evict(&mut self, number: u64, keep_errors: bool) -> bool {
        while self.first < number && !self.events.is_empty() {
            self.retire_oldest();
        }
        let is_unread = number >= self.unread_from;
        let Some(event) = self.events.front_mut().filter(|_| self.first == number) else { return false };
        let was_evicted = std::mem::replace(&mut event.is_evicted, true);
        if !is_unread || (was_evicted && !(keep_errors && self.followers > 0)) || event.answer().is_none() {
            self.drop_oldest();
            return false;
        }
        self.bytes -= event.bytes;
        event.shorten();
        self.bytes += event.bytes;
        true
    }

    /// Drops the oldest event. An unread response becomes an error, and the latest event.
    fn retire_oldest(&mut self) {
        let is_unread = self.first >= self.unread_from;
        let answer = self.events.front().filter(|_| is_unread).and_then(Event::answer);
        self.drop_oldest();
        if let Some(mut answer) = answer {
            answer.shorten();
            self.bytes += answer.bytes;
            self.events.push_back(answer);
        }
    }

    /// Drops the oldest event, if there is one.
    pub(super) fn drop_oldest(&mut self) {
        if let Some(event) = self.events.pop_front() {
            self.bytes -= event.bytes;
            self.first += 1;
            if event.message.is_some() {
                self.lossless_from = self.first;
            }
        }
    }

    /// Drops expired events.
    pub(super) fn drop_old(&mut self, bounds: &Bounds) {
        while self.events.front().is_some_and(|event| event.at.elapsed() > bounds.time) {
            self.drop_oldest();
        }
    }

    /// Returns `true` if the stream has ended and all its events were read.
    pub(super) fn is_read(&self) -> bool {
        self.ended.is_some() && self.unread_from >= self.next()
    }

    /// Returns `true` if there is nothing more to read, now or later.
    pub(super) fn is_finished(&self) -> bool {
        self.ended.is_some() && self.events.is_empty()
    }

    /// Returns a retained event and marks it as read.
    pub(super) fn take(&mut self, stream: StreamId, number: u64) -> Option<ServerSseMessage> {
        let mut event = self.events.get(index(number, self.first))?.message.clone()?;
        event.event_id = Some(event_id(stream, number));
        self.unread_from = self.unread_from.max(number + 1);
        self.is_stalled = false;
        self.room.send_replace(());
        Some(event)
    }

    /// Wakes the task when there are more events, or when the log is removed.
    pub(super) fn wait(&mut self, waker: &Waker) {
        if !self.wakers.iter().any(|known| known.will_wake(waker)) {
            self.wakers.push(waker.clone());
        }
    }

    pub(super) fn wake(&mut self) {
        self.wakers.drain(..).for_each(Waker::wake);
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.wake();
    }
}

fn index(number: u64, first: u64) -> usize {
    usize::try_from(number.saturating_sub(first)).unwrap_or(usize::MAX)
}

/// Returns the kind of change that an event reports, with the resource if it is about one.
fn change(event: &ServerSseMessage) -> Option<(&'static str, &str)> {
    let Some(JsonRpcMessage::Notification(notification)) = event.message.as_deref() else { return None };
    match &notification.notification {
        ServerNotification::ToolListChangedNotification(_) => Some(("tools", "")),
        ServerNotification::PromptListChangedNotification(_) => Some(("prompts", "")),
        ServerNotification::ResourceListChangedNotification(_) => Some(("resources", "")),
        ServerNotification::ResourceUpdatedNotification(updated) => Some(("resource", &updated.params.uri)),
        _ => None,
    }
}

/// Returns the error for a response that was dropped, and its memory cost.
fn evicted(event: &ServerSseMessage) -> Option<(ServerSseMessage, usize)> {
    let id = match event.message.as_deref()? {
        JsonRpcMessage::Response(response) => response.id.clone(),
        JsonRpcMessage::Error(error) => error.id.clone()?,
        _ => return None,
    };
    let reason = "the response was dropped, because it was not read in time; send the request again";
    let error = ErrorData::internal_error(reason, None);
    let error = ServerSseMessage::from_message(ServerJsonRpcMessage::error(error, Some(id)));
    let bytes = size(&error);
    Some((error, bytes))
}
