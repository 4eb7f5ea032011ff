//! Connections whose clients stop reading. They are closed after a while, because what was not sent stays in memory.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// Connection that fails if nothing can be written for too long.
pub(super) struct ReadingClient<T> {
    stream: T,
    timeout: Duration,
    /// End of the wait of a write in progress.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<T> ReadingClient<T> {
    pub(super) fn new(stream: T, timeout: Duration) -> Self {
        Self { stream, timeout, deadline: None }
    }

    /// Returns the result of a write, or an error if it has waited for too long.
    fn limit<R>(&mut self, written: Poll<io::Result<R>>, context: &mut Context<'_>) -> Poll<io::Result<R>> {
        if written.is_ready() {
            self.deadline = None;
            return written;
        }
        let timeout = self.timeout;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        deadline.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for ReadingClient<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for ReadingClient<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.limit(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, buffers);
        self.limit(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::ReadingClient;

    #[tokio::test]
    async fn write_fails_if_nothing_is_read() {
        let (ours, _theirs) = duplex(16);
        let mut client = ReadingClient::new(ours, Duration::from_millis(1));
        let written = client.write_all(&[0; 64]).await;
        assert_eq!(written.map_err(|error| error.kind()), Err(ErrorKind::TimedOut));
    }

    #[tokio::test]
    async fn slow_reader_gets_everything() {
        let (ours, mut theirs) = duplex(16);
        let mut client = ReadingClient::new(ours, Duration::from_secs(60));
        let writer = tokio::spawn(async move { client.write_all(&[7; 64]).await });
        let mut read = [0; 64];
        for byte in read.chunks_mut(1) {
            theirs.read_exact(byte).await.unwrap();
        }
        assert_eq!(read, [7; 64]);
        writer.await.unwrap().unwrap();
    }
}
