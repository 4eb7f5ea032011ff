//! Outgoing messages of a connection, queued until its task writes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::sync::mpsc;

/// Sender of outgoing messages.
#[derive(Debug)]
pub(crate) struct Outbox {
    messages: mpsc::UnboundedSender<String>,
    bytes: Arc<AtomicUsize>,
}

/// Receiver of outgoing messages.
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

    /// Adds a message and returns the number of pending bytes; `None` if the connection has ended.
    pub(crate) fn push(&self, message: String) -> Option<usize> {
        let length = message.len();
        let before = self.bytes.fetch_add(length, Ordering::Relaxed);
        self.messages.send(message).ok().map(|()| before + length)
    }
}

impl Waiting {
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Returns the next message; `None` if there will be no more.
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<String>> {
        let next = self.messages.poll_recv(context);
        if let Poll::Ready(Some(text)) = &next {
            self.bytes.fetch_sub(text.len(), Ordering::Relaxed);
        }
        next
    }
}
