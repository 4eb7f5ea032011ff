//! Progress of a request, for clients that sent a progress token.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{ProgressNotification, ProgressNotificationParam, ProgressToken};
use rmcp::service::{OriginatingRequestId, Peer, RoleServer};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep};

/// Minimum interval between two notifications.
const MIN_INTERVAL: Duration = Duration::from_millis(200);
/// Interval at which the last message is repeated, so that clients with an idle timeout keep waiting.
const REPEAT_INTERVAL: Duration = Duration::from_secs(5);

/// Reports progress, if the client asked for it. Values that do not increase are not sent.
#[derive(Debug)]
pub struct Progress {
    client: Option<(ProgressToken, Peer<RoleServer>, OriginatingRequestId)>,
    last: f64,
}

/// Reports the current activity in words: rate-limited, and repeated from time to time if nothing changes.
pub struct Ticker {
    messages: watch::Sender<Message>,
    forwarder: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Clone, Default)]
struct Message {
    text: String,
    is_last: bool,
}

impl Progress {
    pub(super) fn new(
        token: Option<ProgressToken>,
        peer: Peer<RoleServer>,
        origin: OriginatingRequestId,
    ) -> Self {
        Self { client: token.map(|token| (token, peer, origin)), last: f64::NEG_INFINITY }
    }

    /// Reports the progress of the work.
    pub async fn report(&mut self, progress: f64, total: Option<f64>, message: Option<String>) {
        let Some((token, peer, origin)) = self.client.as_ref().filter(|_| progress > self.last) else {
            return;
        };
        self.last = progress;
        let mut notice = ProgressNotificationParam::new(token.clone(), progress);
        notice.total = total;
        notice.message = message;
        let mut notice = ProgressNotification::new(notice);
        notice.extensions.insert(origin.clone());
        // A disconnected client needs no progress.
        let _ = peer.send_notification(notice.into()).await;
    }

    /// Creates a ticker, if the client asked for progress.
    #[must_use]
    pub fn ticker(self) -> Option<Ticker> {
        self.client.as_ref()?;
        let (messages, updates) = watch::channel(Message::default());
        Some(Ticker { messages, forwarder: Mutex::new(Some(tokio::spawn(tick(self, updates)))) })
    }
}

impl Ticker {
    /// Sets the current activity.
    pub fn set_message(&self, text: String) {
        self.messages.send_modify(|message| message.text = text);
    }

    /// Waits until the last message is sent, even if other references to the ticker remain.
    pub async fn finish(&self) {
        self.messages.send_modify(|message| message.is_last = true);
        let forwarder = self.forwarder.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(forwarder) = forwarder {
            let _ = forwarder.await;
        }
    }
}

async fn tick(mut progress: Progress, mut updates: watch::Receiver<Message>) {
    let mut count = 0.0;
    let mut sent = String::new();
    loop {
        if let Ok(Err(_)) = tokio::time::timeout(REPEAT_INTERVAL, updates.changed()).await {
            return;
        }
        let Message { text, is_last } = updates.borrow_and_update().clone();
        if is_last && text == sent {
            return;
        }
        count += 1.0;
        let pause = tokio::time::sleep_until(Instant::now() + MIN_INTERVAL);
        progress.report(count, None, (!text.is_empty()).then(|| text.clone())).await;
        if is_last {
            return;
        }
        sent = text;
        if updated_during(pause, &mut updates).await {
            updates.mark_changed();
        }
    }
}

/// Waits for the pause, or for the work to finish. Returns `true` if there is a new message to send.
async fn updated_during(pause: Sleep, updates: &mut watch::Receiver<Message>) -> bool {
    tokio::pin!(pause);
    let mut is_updated = false;
    loop {
        tokio::select! {
            () = &mut pause => return is_updated,
            changed = updates.changed() => match changed {
                Ok(()) if updates.borrow().is_last => return true,
                Ok(()) => is_updated = true,
                Err(_) => return is_updated,
            },
        }
    }
}
