//! End of the client's side: detected when all of its lines are read, or earlier, when it hangs up.
//!
//! While a client does not read its responses, its lines are not read either. A hangup must be detected even then, so
//! a dedicated thread watches for it.

use std::sync::{Arc, OnceLock};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::lifetime::DRAIN_TIMEOUT;

/// State of the client's side of the connection.
#[derive(Clone, Default)]
pub(crate) struct InputEnd {
    closed: CancellationToken,
    hung_up: CancellationToken,
    /// Time until which its requests are still answered.
    deadline: Arc<OnceLock<Instant>>,
}

impl InputEnd {
    /// Records that there are no more lines.
    pub(super) fn close(&self) {
        self.deadline();
        self.closed.cancel();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.is_cancelled()
    }

    /// Records that the client has hung up; some of its lines may still be unread.
    fn hang_up(&self) {
        self.deadline();
        self.hung_up.cancel();
    }

    /// Returns the time until which requests are still answered; the first call sets it.
    pub(crate) fn deadline(&self) -> Instant {
        *self.deadline.get_or_init(|| Instant::now() + DRAIN_TIMEOUT)
    }

    /// Waits until no more input is read.
    pub(crate) async fn wait_closed(&self) {
        tokio::select! {
            () = self.closed.cancelled() => {}
            () = self.abandoned() => {}
        }
    }

    /// Waits until the client has hung up and the time for its remaining lines is over.
    pub(super) async fn abandoned(&self) {
        self.hung_up.cancelled().await;
        tokio::time::sleep_until(self.deadline()).await;
    }

    /// Starts watching for a hangup of the other end of stdin.
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
                    // Stdin cannot be watched; its end is detected when it is read.
                    return;
                }
            }
        });
    }
}
