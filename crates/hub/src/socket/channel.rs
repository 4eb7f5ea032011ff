//! Connections that are not workers: ends of channels, and telemetry, which is discarded.

use futures_util::{SinkExt as _, StreamExt as _};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;

use super::Socket;
use crate::channels::{Channels, ClaimResult, End};

/// Reads and discards all messages.
pub(super) async fn drain(mut socket: Socket) {
    while let Some(Ok(_)) = socket.next().await {}
}

/// Serves one end of a channel.
pub(super) async fn serve(channels: &Channels, mut socket: Socket, id: &str, key: &str, end: End) {
    match channels.take(id, key, end) {
        ClaimResult::Writer(writer) => write(socket, writer).await,
        ClaimResult::Reader(reader) => {
            read(socket, reader).await;
            channels.close(id);
        }
        ClaimResult::AlreadyClaimed => drop(socket.close(None).await),
    }
}

/// Forwards the writer's messages to the reader in order, with backpressure.
async fn write(mut socket: Socket, writer: mpsc::Sender<Message>) {
    while let Some(Ok(message)) = socket.next().await {
        let passed_on = matches!(message, Message::Text(_) | Message::Binary(_));
        if matches!(message, Message::Close(_)) || (passed_on && writer.send(message).await.is_err()) {
            break;
        }
    }
    drop(writer);
    // The other side may have disconnected.
    let _ = socket.close(None).await;
    drain(socket).await;
}

async fn read(mut socket: Socket, mut reader: mpsc::Receiver<Message>) {
    loop {
        tokio::select! {
            message = reader.recv() => match message {
                Some(message) => {
                    if socket.send(message).await.is_err() {
                        return;
                    }
                }
                None => break,
            },
            received = socket.next() => match received {
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => {}
            },
        }
    }
    // The other side may have disconnected.
    let _ = socket.close(None).await;
    drain(socket).await;
}
