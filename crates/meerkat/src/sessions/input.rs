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

#[cfg(test)]
mod tests {
    use meerkat_core::{Content, ContentBlock, MediaSource};
    use meerkat_store::Realm;

    use super::*;

    #[tokio::test]
    async fn run_is_opened_again_with_the_same_input() {
        let store = Realm::ephemeral("again".parse().unwrap()).store();
        let source = MediaSource::Inline { data: "aGk=".to_owned() };
        let image = ContentBlock::Image { media_type: "image/png".to_owned(), source };
        let text = ContentBlock::Text { text: "what is it?".to_owned() };
        let prompt = Content::from(vec![image, text]);
        let mut input = CallerInput::new(RunInput { prompt, ..RunInput::default() });
        let transcript = Transcript::default();
        let mut opened = Vec::new();
        for _ in 0..2 {
            let (opening, blobs) =
                input.open(&*store, (&transcript, &[]), Timestamp::UNIX_EPOCH).await.unwrap();
            opened.push((opening.prompt, opening.messages, blobs));
        }
        assert_eq!((opened[0].1.len(), opened[0].2.len()), (1, 1));
        assert_eq!(format!("{:?}", opened[0]), format!("{:?}", opened[1]));
    }
}
