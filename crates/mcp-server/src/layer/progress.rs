//! Progress of a request, for a client that asked for it with a token.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{ProgressNotification, ProgressNotificationParam, ProgressToken};
use rmcp::service::{OriginatingRequestId, Peer, RoleServer};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep};

/// How long two notices are apart at least.
const MOST_OFTEN: Duration = Duration::from_millis(200);
/// After how long the last word is said again, so that a client that counts the silence waits on.
const AT_LEAST: Duration = Duration::from_secs(5);

/// Tells progress, if the client wants it. What does not grow is not told.
#[derive(Debug)]
pub struct Progress {
    client: Option<(ProgressToken, Peer<RoleServer>, OriginatingRequestId)>,
    last: f64,
}

/// Tells what is being done, in words: at most so often, and now and then again when nothing is new.
pub struct Ticker {
    words: watch::Sender<Words>,
    forwarder: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Clone, Default)]
struct Words {
    text: String,
    are_last: bool,
}

impl Progress {
    pub(super) fn new(
        token: Option<ProgressToken>,
        peer: Peer<RoleServer>,
        origin: OriginatingRequestId,
    ) -> Self {
        Self { client: token.map(|token| (token, peer, origin)), last: f64::NEG_INFINITY }
    }

    /// Tells how far the work is.
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
        // A client that is gone needs no progress.
        let _ = peer.send_notification(notice.into()).await;
    }

    /// Makes a ticker, if the client wants to know.
    #[must_use]
    pub fn ticker(self) -> Option<Ticker> {
        self.client.as_ref()?;
        let (words, heard) = watch::channel(Words::default());
        Some(Ticker { words, forwarder: Mutex::new(Some(tokio::spawn(tick(self, heard)))) })
    }
}

impl Ticker {
    /// Says what is being done now.
    pub fn say(&self, text: String) {
        self.words.send_modify(|words| words.text = text);
    }

    /// Waits until the last words are sent, whoever else may still hold the ticker.
    pub async fn finish(&self) {
        self.words.send_modify(|words| words.are_last = true);
        let forwarder = self.forwarder.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(forwarder) = forwarder {
            let _ = forwarder.await;
        }
    }
}

async fn tick(mut progress: Progress, mut heard: watch::Receiver<Words>) {
    let mut count = 0.0;
    let mut told = String::new();
    loop {
        if let Ok(Err(_)) = tokio::time::timeout(AT_LEAST, heard.changed()).await {
            return;
        }
        let Words { text, are_last } = heard.borrow_and_update().clone();
        if are_last && text == told {
            return;
        }
        count += 1.0;
        let pause = tokio::time::sleep_until(Instant::now() + MOST_OFTEN);
        progress.report(count, None, (!text.is_empty()).then(|| text.clone())).await;
        if are_last {
            return;
        }
        told = text;
        if said_during(pause, &mut heard).await {
            heard.mark_changed();
        }
    }
}

/// Says whether something was said during the pause, which ends early when the work does.
async fn said_during(pause: Sleep, heard: &mut watch::Receiver<Words>) -> bool {
    tokio::pin!(pause);
    let mut said = false;
    loop {
        tokio::select! {
            () = &mut pause => return said,
            changed = heard.changed() => match changed {
                Ok(()) if heard.borrow().are_last => return true,
                Ok(()) => said = true,
                Err(_) => return said,
            },
        }
    }
}
