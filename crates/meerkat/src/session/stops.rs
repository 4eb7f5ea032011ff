//! What may end a run from outside: an interrupt, or its time.

use std::sync::Arc;
use std::time::Duration;

use meerkat_core::run::Stop;
use meerkat_core::{BoxFuture, Clock, Timestamp};
use tokio_util::sync::CancellationToken;

use super::live::later;

/// Listens for what may end a run; each is told once.
pub(super) struct Stops {
    interrupt: Option<CancellationToken>,
    deadline: Option<(Timestamp, BoxFuture<'static, ()>)>,
}

impl Stops {
    pub(super) fn new(interrupt: CancellationToken, limit: Option<Duration>, clock: &Arc<dyn Clock>) -> Self {
        let alarm = |limit| {
            let own = Arc::clone(clock);
            let ring: BoxFuture<'static, ()> = Box::pin(async move { own.sleep(limit).await });
            (later(clock.now(), limit), ring)
        };
        Self { interrupt: Some(interrupt), deadline: limit.map(alarm) }
    }

    /// Says what has come by now.
    pub(super) fn due(&mut self, now: Timestamp) -> Option<Stop> {
        if self.interrupt.take_if(|token| token.is_cancelled()).is_some() {
            return Some(Stop::Interrupt);
        }
        self.deadline.take_if(|(at, _)| *at <= now).map(|_| Stop::Deadline)
    }

    /// Waits for what comes next.
    pub(super) async fn next(&mut self) -> Stop {
        tokio::select! {
            () = cancelled(self.interrupt.as_ref()) => {
                self.interrupt = None;
                Stop::Interrupt
            }
            () = rung(self.deadline.as_mut()) => {
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

async fn rung(deadline: Option<&mut (Timestamp, BoxFuture<'static, ()>)>) {
    match deadline {
        Some((_, alarm)) => alarm.await,
        None => std::future::pending().await,
    }
}
