//! Bodies of requests while they arrive: how long each may be, how long it may take, and how much all of them may
//! hold together.
//!
//! Without the last bound, clients that never finish their requests could take all memory, one connection each. The
//! first bytes of a body do not count toward it, so that ordinary messages are served while large ones are rejected.

use std::pin::Pin;
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures_core::Stream as _;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Time allowed for a body to arrive.
const ARRIVAL: Duration = Duration::from_secs(60);
/// Bytes of each body that do not count toward the bound of all bodies.
const UNCOUNTED: usize = 8 * 1024;

/// The bodies that are being read.
pub(super) struct Bodies {
    longest: usize,
    /// One permit for each byte that unfinished bodies may still hold.
    capacity: Semaphore,
}

/// A body that was not read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum BodyError {
    #[error("the body is longer than {0} bytes")]
    TooLong(usize),
    #[error("the body is incomplete; send it again")]
    Broken,
    #[error("the body took too long to arrive")]
    TooSlow,
    #[error("too many large requests are arriving at once; try later")]
    TooMany,
}

impl Bodies {
    /// Accepts bodies of up to `longest` bytes, and up to about `together` bytes of unfinished ones.
    pub(super) fn new(longest: usize, together: usize) -> Self {
        Self { longest, capacity: Semaphore::new(together.min(Semaphore::MAX_PERMITS)) }
    }

    /// Reads a body that has an end.
    pub(super) async fn read(&self, body: Body) -> Result<Bytes, BodyError> {
        tokio::time::timeout(ARRIVAL, self.collect(body)).await.unwrap_or(Err(BodyError::TooSlow))
    }

    async fn collect(&self, body: Body) -> Result<Bytes, BodyError> {
        let mut chunks = body.into_data_stream();
        let (mut read, mut held) = (Vec::new(), None::<SemaphorePermit<'_>>);
        while let Some(chunk) = std::future::poll_fn(|context| Pin::new(&mut chunks).poll_next(context)).await
        {
            let chunk = chunk.map_err(|_| BodyError::Broken)?;
            if chunk.len() > self.longest - read.len() {
                return Err(BodyError::TooLong(self.longest));
            }
            let counted = (read.len() + chunk.len()).saturating_sub(UNCOUNTED).min(chunk.len());
            let permit = self.hold(counted)?;
            match &mut held {
                Some(held) => held.merge(permit),
                None => held = Some(permit),
            }
            read.extend_from_slice(&chunk);
        }
        Ok(read.into())
    }

    fn hold(&self, bytes: usize) -> Result<SemaphorePermit<'_>, BodyError> {
        let bytes = u32::try_from(bytes).map_err(|_| BodyError::TooMany)?;
        self.capacity.try_acquire_many(bytes).map_err(|_| BodyError::TooMany)
    }
}

#[cfg(test)]
mod tests {
    use super::{Bodies, BodyError, UNCOUNTED};
    use axum::body::{Body, Bytes};
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};
    use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

    /// A body whose chunks are sent by the test.
    struct Chunks(UnboundedReceiver<Bytes>);

    impl futures_core::Stream for Chunks {
        type Item = Result<Bytes, Infallible>;

        fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
            self.0.poll_recv(context).map(|chunk| chunk.map(Ok))
        }
    }

    fn unfinished(length: usize) -> (UnboundedSender<Bytes>, Body) {
        let (sender, chunks) = unbounded_channel();
        sender.send(vec![b'x'; length].into()).unwrap();
        (sender, Body::from_stream(Chunks(chunks)))
    }

    fn complete(length: usize) -> Body {
        Body::from(vec![b'x'; length])
    }

    #[tokio::test]
    async fn unfinished_bodies_share_one_bound() {
        let bodies = Bodies::new(100_000, 50_000);
        let (sender, first) = unfinished(40_000 + UNCOUNTED);
        let first = bodies.read(first);
        tokio::pin!(first);
        assert!(std::future::poll_fn(|context| Poll::Ready(first.as_mut().poll(context))).await.is_pending());
        assert_eq!(
            bodies.read(complete(10_001 + UNCOUNTED)).await.map(|read| read.len()),
            Err(BodyError::TooMany)
        );
        let small = bodies.read(complete(10_000 + UNCOUNTED)).await;
        assert_eq!(small.map(|read| read.len()), Ok(10_000 + UNCOUNTED));
        drop(sender);
        assert_eq!(first.await.map(|read| read.len()), Ok(40_000 + UNCOUNTED));
        assert_eq!(bodies.capacity.available_permits(), 50_000);
    }

    #[tokio::test]
    async fn small_bodies_are_read_at_the_bound() {
        let bodies = Bodies::new(100_000, 0);
        assert_eq!(
            bodies.read(complete(UNCOUNTED + 1)).await.map(|read| read.len()),
            Err(BodyError::TooMany)
        );
        assert_eq!(bodies.read(complete(UNCOUNTED)).await.map(|read| read.len()), Ok(UNCOUNTED));
    }
}
