//! The end of the client's side: seen when all of its lines are read, or before, when it hangs up.
//!
//! While a client does not read its answers, its lines are not read either. That it has hung up must be seen
//! nevertheless, so a thread looks for nothing else.

use std::sync::{Arc, OnceLock};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::lifetime::FAREWELL;

/// Knows whether the client's side has ended.
#[derive(Clone, Default)]
pub(crate) struct End {
    closed: CancellationToken,
    hung_up: CancellationToken,
    /// Until when what it sent is still answered.
    deadline: Arc<OnceLock<Instant>>,
}

impl End {
    /// Notes that there will be no more lines.
    pub(super) fn close(&self) {
        self.deadline();
        self.closed.cancel();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.is_cancelled()
    }

    /// Notes that the client has hung up; some of its lines may not be read yet.
    fn hang_up(&self) {
        self.deadline();
        self.hung_up.cancel();
    }

    /// Returns until when requests are still answered; the first call sets it.
    pub(crate) fn deadline(&self) -> Instant {
        *self.deadline.get_or_init(|| Instant::now() + FAREWELL)
    }

    /// Waits until nothing more is read.
    pub(crate) async fn over(&self) {
        tokio::select! {
            () = self.closed.cancelled() => {}
            () = self.abandoned() => {}
        }
    }

    /// Waits until the client has hung up and left us no time for the rest of its lines.
    pub(super) async fn abandoned(&self) {
        self.hung_up.cancelled().await;
        tokio::time::sleep_until(self.deadline()).await;
    }

    /// Looks from now on whether the other end of stdin hangs up.
    #[cfg(unix)]
    pub(super) fn watch_stdin(&self) {
        use rustix::event::{PollFd, PollFlags, poll};
        #[cfg(target_os = "linux")]
        const CLOSING: PollFlags = PollFlags::RDHUP;
        #[cfg(not(target_os = "linux"))]
        const CLOSING: PollFlags = PollFlags::empty();

        let end = self.clone();
        std::thread::spawn(move || {
            let stdin = std::io::stdin();
            let mut watched = [PollFd::new(&stdin, CLOSING)];
            while let Ok(_) | Err(rustix::io::Errno::INTR) = poll(&mut watched, None) {
                if watched[0].revents().intersects(PollFlags::HUP | CLOSING) {
                    return end.hang_up();
                }
                if !watched[0].revents().is_empty() {
                    // It cannot be watched; its end is seen when it is read.
                    return;
                }
            }
        });
    }
}
