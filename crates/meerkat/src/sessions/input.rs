//! The caller's input of a run, from the request to the run's first messages. It is moved, never copied, because a
//! prompt may be long.

use std::sync::Arc;

use meerkat_core::run::{Opening, RunInput, StoredCall, open};
use meerkat_core::{Message, Timestamp, Transcript};
use meerkat_store::{Blob, Change, Store};

use super::media::externalize_input;
use crate::Error;

/// Input from which a run can be opened, again if the session has changed in the meantime.
pub(super) struct CallerInput {
    input: RunInput,
    /// Inline data of the input; `None` until it is moved here.
    blobs: Option<Vec<Blob>>,
    /// The message that took the prompt when the run was last opened.
    message: Option<Arc<Message>>,
}

impl CallerInput {
    pub(super) fn new(input: RunInput) -> Self {
        Self { input, blobs: None, message: None }
    }

    /// Opens a run, and returns the changes that store the input's blobs.
    pub(super) async fn open(
        &mut self,
        store: &dyn Store,
        (transcript, calls): (&Transcript, &[StoredCall]),
        now: Timestamp,
    ) -> Result<(Opening, Vec<Change>), Error> {
        let blobs = match &mut self.blobs {
            Some(blobs) => blobs,
            none => none.insert(externalize_input(store, &mut self.input).await?),
        };
        if let Some(Message::User { content, .. }) = self.message.take().map(Arc::unwrap_or_clone) {
            self.input.prompt = content;
        }
        let opening = open(transcript, calls, &mut self.input, now)?;
        self.message = Some(Arc::clone(&opening.prompt));
        Ok((opening, blobs.iter().cloned().map(Change::PutBlob).collect()))
    }
}
