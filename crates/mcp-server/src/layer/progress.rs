//! Progress of a request, for a client that asked for it with a token.

use std::time::Duration;

use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RoleServer};
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
    client: Option<(ProgressToken, Peer<RoleServer>)>,
    last: f64,
}

/// Tells what is being done, in words: at most so often, and now and then again when nothing is new.
pub struct Ticker {
    words: watch::Sender<String>,
    forwarder: JoinHandle<()>,
}

impl Progress {
    pub(super) fn new(token: Option<ProgressToken>, peer: Peer<RoleServer>) -> Self {
        Self { client: token.map(|token| (token, peer)), last: f64::NEG_INFINITY }
    }

    /// Tells how far the work is.
    pub async fn report(&mut self, progress: f64, total: Option<f64>, message: Option<String>) {
        let Some((token, peer)) = self.client.as_ref().filter(|_| progress > self.last) else { return };
        self.last = progress;
        let mut notice = ProgressNotificationParam::new(token.clone(), progress);
        notice.total = total;
        notice.message = message;
        // A client that is gone needs no progress.
        let _ = peer.notify_progress(notice).await;
    }

    /// Makes a ticker, if the client wants to know.
    #[must_use]
    pub fn ticker(self) -> Option<Ticker> {
        self.client.as_ref()?;
        let (words, heard) = watch::channel(String::new());
        Some(Ticker { words, forwarder: tokio::spawn(tick(self, heard)) })
    }
}

impl Ticker {
    /// Says what is being done now.
    pub fn say(&self, words: String) {
        self.words.send_replace(words);
    }

    /// Waits until the last words are sent.
    pub async fn finish(self) {
        drop(self.words);
        let _ = self.forwarder.await;
    }
}

async fn tick(mut progress: Progress, mut heard: watch::Receiver<String>) {
    let mut count = 0.0;
    loop {
        if let Ok(Err(_)) = tokio::time::timeout(AT_LEAST, heard.changed()).await {
            // The work is done and its last words are told.
            return;
        }
        let words = heard.borrow_and_update().clone();
        count += 1.0;
        let pause = tokio::time::sleep_until(Instant::now() + MOST_OFTEN);
        progress.report(count, None, (!words.is_empty()).then_some(words)).await;
        if said_during(pause, &mut heard).await {
            heard.mark_changed();
        }
    }
}

/// Says whether something was said during the pause, which ends early when the work does.
async fn said_during(pause: Sleep, heard: &mut watch::Receiver<String>) -> bool {
    tokio::pin!(pause);
    let mut said = false;
    loop {
        tokio::select! {
            () = &mut pause => return said,
            changed = heard.changed() => match changed {
                Ok(()) => said = true,
                Err(_) => return said,
            },
        }
    }
}
