//! External stop signals of a run: an interrupt or its deadline.

use std::sync::Arc;
use std::time::Duration;

use meerkat_core::run::Stop;
use meerkat_core::{BoxFuture, Clock, Timestamp};
use tokio_util::sync::CancellationToken;

use super::active::saturating_add;

/// Stop signals of a run; each is reported once.
pub(super) struct StopSignals {
    interrupt: Option<CancellationToken>,
    deadline: Option<(Timestamp, BoxFuture<'static, ()>)>,
}

impl StopSignals {
    pub(super) fn new(interrupt: CancellationToken, limit: Option<Duration>, clock: &Arc<dyn Clock>) -> Self {
        let deadline = |limit| {
            let timer_clock = Arc::clone(clock);
            let timer: BoxFuture<'static, ()> = Box::pin(async move { timer_clock.sleep(limit).await });
            (saturating_add(clock.now(), limit), timer)
        };
        Self { interrupt: Some(interrupt), deadline: limit.map(deadline) }
    }

    /// Returns a stop signal that has already arrived.
    pub(super) fn due(&mut self, now: Timestamp) -> Option<Stop> {
        if self.interrupt.take_if(|token| token.is_cancelled()).is_some() {
            return Some(Stop::Interrupt);
        }
        self.deadline.take_if(|(at, _)| *at <= now).map(|_| Stop::Deadline)
    }

    /// Waits for the next stop signal.
    pub(super) async fn next(&mut self) -> Stop {
        tokio::select! {
            () = cancelled(self.interrupt.as_ref()) => {
                self.interrupt = None;
                Stop::Interrupt
            }
            () = deadline_elapsed(self.deadline.as_mut()) => {
                self.deadline = None;
                Stop::Deadline
            }
        }
    }
}

async fn cancelled(token: Option<&CancellationToken>) {
    match token {
        Some(token) => token.cancelled().await,
        None => std::future::pending().await,
    }
}

async fn deadline_elapsed(deadline: Option<&mut (Timestamp, BoxFuture<'static, ()>)>) {
    match deadline {
        Some((_, timer)) => timer.await,
        None => std::future::pending().await,
    }
}
