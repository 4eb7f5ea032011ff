//! The output of a command: its end for the model, and as much as the limit allows for a blob.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use meerkat_core::{BlobId, Cut, Redactor};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::storage::{StoredBlob, ToolStorage};

/// Maximum number of bytes stored of one stream.
const MAX_STORED: usize = 8 * 1024 * 1024;
/// Maximum number of characters returned to the model.
const MAX_VISIBLE: usize = 100_000;

/// Output of a command on one stream, so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Capture(Arc<Mutex<OutputBuffer>>);

#[derive(Debug, Default)]
struct OutputBuffer {
    bytes: VecDeque<u8>,
    dropped: usize,
}

/// Output for the model.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct VisibleOutput {
    pub(super) text: String,
    pub(super) lossy: bool,
}

impl Capture {
    /// Reads a stream to its end.
    pub(super) async fn fill(self, mut stream: impl AsyncRead + Unpin) {
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(count @ 1..) = stream.read(&mut buffer).await {
            let mut output = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            output.bytes.extend(&buffer[..count]);
            let excess = output.bytes.len().saturating_sub(MAX_STORED);
            output.bytes.drain(..excess);
            output.dropped += excess;
        }
    }

    /// Returns the end of the output; if that is not all, the full output is stored as a blob. Secrets are redacted
    /// before it is truncated.
    pub(super) async fn to_visible(&self, shelf: &dyn ToolStorage, redactor: &Redactor) -> VisibleOutput {
        let (bytes, dropped) = {
            let output = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            (output.bytes.iter().copied().collect::<Vec<u8>>(), output.dropped)
        };
        let bytes = redactor.redact_bytes(&bytes, if dropped == 0 { Cut::None } else { Cut::Start });
        let text = String::from_utf8_lossy(&bytes);
        let lossy = matches!(text, std::borrow::Cow::Owned(_));
        let cut = text.char_indices().rev().nth(MAX_VISIBLE - 1).map_or(0, |(at, _)| at);
        if cut == 0 && dropped == 0 {
            return VisibleOutput { text: text.into_owned(), lossy };
        }
        let tail = text[cut..].to_owned();
        let blob = StoredBlob { media_type: "text/plain".to_owned(), data: bytes };
        let note = note(cut + dropped, shelf.put_blob(blob).await.ok().as_ref());
        VisibleOutput { text: format!("{note}\n{tail}"), lossy }
    }
}

fn note(omitted: usize, blob: Option<&BlobId>) -> String {
    match blob {
        Some(id) => format!("[… {omitted} bytes omitted before this; blob {id} has them, up to 8 MB …]"),
        None => format!("[… {omitted} bytes omitted before this …]"),
    }
}
