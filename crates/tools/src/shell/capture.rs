//! The output of a command: its end for the model, as much as is reasonable for a blob.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use meerkat_core::{BlobId, Cut, Redactor};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::shelf::{Shelf, StoredBlob};

/// How much is kept of one stream.
const MAX_KEPT: usize = 8 * 1024 * 1024;
/// How many characters of it the model reads.
const MAX_SHOWN: usize = 100_000;

/// What a command wrote on one stream, so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Capture(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    bytes: VecDeque<u8>,
    dropped: usize,
}

/// What the model reads of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) text: String,
    pub(super) lossy: bool,
}

impl Capture {
    /// Reads a stream to its end.
    pub(super) async fn fill(self, mut stream: impl AsyncRead + Unpin) {
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(count @ 1..) = stream.read(&mut buffer).await {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            kept.bytes.extend(&buffer[..count]);
            let excess = kept.bytes.len().saturating_sub(MAX_KEPT);
            kept.bytes.drain(..excess);
            kept.dropped += excess;
        }
    }

    /// Shows the end of it; the whole becomes a blob if that is not all. Secrets are taken out before it is cut.
    pub(super) async fn show(&self, shelf: &dyn Shelf, redactor: &Redactor) -> Shown {
        let (bytes, dropped) = {
            let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            (kept.bytes.iter().copied().collect::<Vec<u8>>(), kept.dropped)
        };
        let bytes = redactor.redact_bytes(&bytes, if dropped == 0 { Cut::None } else { Cut::Start });
        let text = String::from_utf8_lossy(&bytes);
        let lossy = matches!(text, std::borrow::Cow::Owned(_));
        let cut = text.char_indices().rev().nth(MAX_SHOWN - 1).map_or(0, |(at, _)| at);
        if cut == 0 && dropped == 0 {
            return Shown { text: text.into_owned(), lossy };
        }
        let tail = text[cut..].to_owned();
        let note = note(cut + dropped, shelf.put_blob(text_blob(bytes)).await.ok().as_ref());
        Shown { text: format!("{note}\n{tail}"), lossy }
    }
}

fn text_blob(data: Vec<u8>) -> StoredBlob {
    StoredBlob { media_type: "text/plain".to_owned(), data }
}

fn note(left_out: usize, blob: Option<&BlobId>) -> String {
    match blob {
        Some(id) => format!("[… {left_out} bytes left out before this; blob {id} has them, up to 8 MB …]"),
        None => format!("[… {left_out} bytes left out before this …]"),
    }
}
