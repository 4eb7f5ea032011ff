//! Channels: streams of messages from one worker to another, separate from calls.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;
use uuid::Uuid;

use crate::error::CallError;
use crate::lock;

/// Default and maximum number of messages buffered for the reader.
const BUFFER: usize = 64;
const MAX_BUFFER: usize = 1024;
/// Time after which a channel with an unclaimed end is closed.
const UNUSED: Duration = Duration::from_secs(300);

/// One end of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Read,
    Write,
}

/// Result of claiming an end of a channel.
#[derive(Debug)]
pub(crate) enum ClaimResult {
    Reader(mpsc::Receiver<Message>),
    Writer(mpsc::Sender<Message>),
    /// The end is already in use.
    AlreadyClaimed,
}

#[derive(Debug)]
struct Channel {
    key: String,
    reader: Option<mpsc::Receiver<Message>>,
    writer: Option<mpsc::Sender<Message>>,
    since: Instant,
}

/// All channels.
#[derive(Debug, Clone)]
pub(crate) struct Channels {
    open: Arc<Mutex<HashMap<String, Channel>>>,
    limit: usize,
}

impl Channels {
    pub(crate) fn new(limit: usize) -> Self {
        Self { open: Arc::default(), limit }
    }

    /// Opens a channel and returns references to both its ends.
    pub(crate) fn create(&self, input: &Value) -> Result<Value, CallError> {
        let size =
            input.get("buffer_size").and_then(Value::as_u64).and_then(|size| usize::try_from(size).ok());
        let (writer, reader) = mpsc::channel(size.unwrap_or(BUFFER).clamp(1, MAX_BUFFER));
        let (id, key) = (Uuid::new_v4().to_string(), Uuid::new_v4().to_string());
        let end = |direction: &str| json!({ "channel_id": id, "access_key": key, "direction": direction });
        let ends = json!({ "writer": end("write"), "reader": end("read") });
        let mut open = lock(&self.open);
        if open.len() >= self.limit {
            let text = format!("{} channels are open; close some first", self.limit);
            return Err(CallError::new("invocation_error", text));
        }
        let (reader, writer, since) = (Some(reader), Some(writer), Instant::now());
        open.insert(id.clone(), Channel { key: key.clone(), reader, writer, since });
        Ok(ends)
    }

    /// Returns `true` if the channel exists and the key matches.
    pub(crate) fn knows(&self, id: &str, key: &str) -> bool {
        lock(&self.open).get(id).is_some_and(|channel| channel.key == key)
    }

    /// Claims an end; each end can be claimed once.
    pub(crate) fn take(&self, id: &str, key: &str, end: End) -> ClaimResult {
        let mut open = lock(&self.open);
        let Some(channel) = open.get_mut(id).filter(|channel| channel.key == key) else {
            return ClaimResult::AlreadyClaimed;
        };
        let taken = match end {
            End::Read => channel.reader.take().map(ClaimResult::Reader),
            End::Write => channel.writer.take().map(ClaimResult::Writer),
        };
        if channel.reader.is_none() && channel.writer.is_none() {
            // Both ends are claimed now; a third connection finds none.
            channel.since = Instant::now();
        }
        taken.unwrap_or(ClaimResult::AlreadyClaimed)
    }

    /// Removes a channel that has ended.
    pub(crate) fn close(&self, id: &str) {
        lock(&self.open).remove(id);
    }

    /// Removes channels with an end that was not claimed in time.
    pub(crate) fn sweep(&self) {
        lock(&self.open).retain(|_, channel| {
            let taken = channel.reader.is_none() && channel.writer.is_none();
            taken || channel.since.elapsed() < UNUSED
        });
    }
}
