//! Images, clips, files and long texts: kept once in the realm's store. Images and clips are put back where a model is
//! to see them; of a file it is told, and of a long text it sees the head and the tail.
//!
//! Messages name what is stored by its id, so a long conversation does not carry its images along. Whatever is
//! missing or unreadable becomes a text that says so; a run never fails for an image.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use meerkat_core::run::RunInput;
use meerkat_core::{
    BlobId, Content, ContentBlock, Cut, MediaSource, Message, ModelInfo, Provider, Redactor, ToolOutput,
    ToolResult,
};
use meerkat_store::{Blob, Change, Store, Transaction};

use crate::Error;
use crate::bound::head_and_tail;

/// The largest image that Anthropic reads: five megabytes in base64.
const ANTHROPIC_LIMIT: usize = 5 * 1024 * 1024 / 4 * 3;

/// How much text of one result a model reads, in bytes: about ten thousand tokens.
const MAX_TEXT: usize = 40 * 1024;
/// Texts up to this length are never cut.
const SMALL: usize = 1024;

/// Moves what a caller brought inline into blobs.
///
/// # Errors
/// Refuses data that is not base64, and blobs that do not exist.
pub(super) async fn stored_input(
    store: &dyn Store,
    input: RunInput,
) -> Result<(RunInput, Vec<Change>), Error> {
    check_blobs(store, "prompt", &input.prompt).await?;
    for (at, result) in input.results.iter().enumerate() {
        check_blobs(store, &format!("tool_results[{at}].content"), &result.content).await?;
    }
    let mut blobs = Vec::new();
    let prompt = stored(&input.prompt, &mut blobs)
        .map_err(|index| Error::Arguments(format!("`prompt[{index}].data` is not base64")))?;
    let mut results = Vec::with_capacity(input.results.len());
    for (at, result) in input.results.iter().enumerate() {
        let content = stored(&result.content, &mut blobs).map_err(|index| {
            Error::Arguments(format!("`tool_results[{at}].content[{index}].data` is not base64"))
        })?;
        results.push(ToolResult { content, ..result.clone() });
    }
    let changes = blobs.into_iter().map(Change::PutBlob).collect();
    Ok((RunInput { prompt, results, ..input }, changes))
}

/// Rejects content that names a blob which the realm does not have.
async fn check_blobs(store: &dyn Store, field: &str, content: &Content) -> Result<(), Error> {
    for (index, block) in content.blocks().iter().enumerate() {
        let (ContentBlock::Image { source, .. }
        | ContentBlock::Video { source, .. }
        | ContentBlock::File { source, .. }) = block
        else {
            continue;
        };
        if let MediaSource::Blob { blob_id } = source
            && !store.has_blob(blob_id.clone()).await?
        {
            return Err(Error::Arguments(format!(
                "`{field}[{index}].blob_id`: no blob `{blob_id}` in this realm; use an id that this realm returned, or \
                 send the bytes as `data`"
            )));
        }
    }
    Ok(())
}

/// Moves what a tool gave inline, and texts that are too long to be read, into blobs. Where that fails, all stays
/// where it is.
pub(super) async fn stored_output(store: &dyn Store, output: ToolOutput, redactor: &Redactor) -> ToolOutput {
    let mut blobs = Vec::new();
    // Data that makes no sense is no reason to let a long text through.
    let content = stored(&output.content, &mut blobs).unwrap_or_else(|_| output.content.clone());
    let content = redacted_files(&content, &mut blobs, redactor);
    let content = shortened(&content, &mut blobs);
    if blobs.is_empty() {
        return output;
    }
    let changes = blobs.into_iter().map(Change::PutBlob).collect();
    match store.commit(Transaction { guards: Vec::new(), changes }).await {
        Ok(_) => ToolOutput { content, ..output },
        Err(_) => output,
    }
}

/// Takes secrets out of the files among blobs, which were not yet text when the rest was.
fn redacted_files(content: &Content, blobs: &mut [Blob], redactor: &Redactor) -> Content {
    let mut blocks = content.blocks().to_vec();
    for block in &mut blocks {
        let ContentBlock::File { source: MediaSource::Blob { blob_id }, .. } = block else { continue };
        let Some(blob) = blobs.iter_mut().find(|blob| blob.id == *blob_id) else { continue };
        let data = redactor.redact_bytes(&blob.data, Cut::None);
        if data != blob.data {
            *blob = Blob::new(blob.media_type.clone(), data);
            *blob_id = blob.id.clone();
        }
    }
    Content::from(blocks)
}

/// Cuts texts that are together too long: each keeps its share of head and tail, and the whole becomes a blob.
fn shortened(content: &Content, blobs: &mut Vec<Blob>) -> Content {
    let lengths = content.blocks().iter().filter_map(|block| match block {
        ContentBlock::Text { text } => Some(text.len()),
        _ => None,
    });
    let (count, total) = lengths.fold((0, 0), |(count, total), length| (count + 1, total + length));
    if total <= MAX_TEXT {
        return content.clone();
    }
    let share = (MAX_TEXT / count).max(SMALL);
    let mut cut = |block: &ContentBlock| match block {
        ContentBlock::Text { text } if text.len() > share => {
            let blob = Blob::new("text/plain", text.clone().into_bytes());
            let text = head_and_tail(text, share, Some(&blob.id));
            blobs.push(blob);
            ContentBlock::Text { text }
        }
        other => other.clone(),
    };
    Content::from(content.blocks().iter().map(&mut cut).collect::<Vec<_>>())
}

/// Returns the content with blobs in place of inline data; the error is the place of what is not base64.
fn stored(content: &Content, blobs: &mut Vec<Blob>) -> Result<Content, usize> {
    let mut blocks = content.blocks().to_vec();
    for (index, block) in blocks.iter_mut().enumerate() {
        let (ContentBlock::Image { media_type, source }
        | ContentBlock::Video { media_type, source, .. }
        | ContentBlock::File { media_type, source }) = block
        else {
            continue;
        };
        if let MediaSource::Inline { data } = source {
            let blob = Blob::new(media_type.clone(), STANDARD.decode(data).map_err(|_| index)?);
            *source = MediaSource::Blob { blob_id: blob.id.clone() };
            blobs.push(blob);
        }
    }
    Ok(Content::from(blocks))
}

/// Puts blobs back into messages, as far as the model can see them.
pub(super) async fn shown(
    store: &dyn Store,
    model: &ModelInfo,
    messages: Vec<Arc<Message>>,
) -> Vec<Arc<Message>> {
    let mut reader = Reader { store, model, read: BTreeMap::new() };
    let mut shown = Vec::with_capacity(messages.len());
    for message in messages {
        let put_back = reader.message(&message).await;
        shown.push(put_back.map_or(message, Arc::new));
    }
    shown
}

/// Who sees a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Said,
    Result,
}

/// Reads each blob once.
struct Reader<'a> {
    store: &'a dyn Store,
    model: &'a ModelInfo,
    read: BTreeMap<BlobId, Result<String, &'static str>>,
}

impl Reader<'_> {
    /// Returns the message with what it names, or nothing where it names nothing.
    async fn message(&mut self, message: &Message) -> Option<Message> {
        match message {
            Message::User { content, created_at } if names_blobs(content) => {
                let content = self.content(content, Place::Said).await;
                Some(Message::User { content, created_at: *created_at })
            }
            Message::ToolResults { results, created_at }
                if results.iter().any(|r| names_blobs(&r.content)) =>
            {
                let mut out = Vec::with_capacity(results.len());
                for result in results {
                    let content = self.content(&result.content, Place::Result).await;
                    out.push(ToolResult { content, ..result.clone() });
                }
                Some(Message::ToolResults { results: out, created_at: *created_at })
            }
            _ => None,
        }
    }

    async fn content(&mut self, content: &Content, place: Place) -> Content {
        let mut blocks = Vec::with_capacity(content.blocks().len());
        for block in content.blocks() {
            blocks.push(match blob_of(block) {
                Some(id) if self.is_seen(block, place) => self.block(block, id).await,
                _ => block.clone(),
            });
        }
        Content::from(blocks)
    }

    fn is_seen(&self, block: &ContentBlock, place: Place) -> bool {
        let profile = self.model.profile;
        match (block, place) {
            (ContentBlock::Image { .. }, Place::Said) => profile.vision,
            (ContentBlock::Image { .. }, Place::Result) => profile.image_tool_results,
            (ContentBlock::Video { .. }, Place::Said) => profile.inline_video,
            _ => false,
        }
    }

    async fn block(&mut self, block: &ContentBlock, id: &BlobId) -> ContentBlock {
        let data = match self.data(id).await {
            Ok(data) => data,
            Err(why) => return ContentBlock::Text { text: format!("{} ({why})", block.to_text()) },
        };
        let mut block = block.clone();
        if let ContentBlock::Image { source, .. } | ContentBlock::Video { source, .. } = &mut block {
            *source = MediaSource::Inline { data };
        }
        block
    }

    async fn data(&mut self, id: &BlobId) -> Result<String, &'static str> {
        if let Some(read) = self.read.get(id) {
            return read.clone();
        }
        let read = match self.store.blob(id.clone()).await {
            Ok(Some(blob)) if self.is_too_large(&blob) => Err("too large for this model to read"),
            Ok(Some(blob)) => Ok(STANDARD.encode(&blob.data)),
            Ok(None) => Err("no longer in the store"),
            Err(_) => Err("cannot be read from the store"),
        };
        self.read.insert(id.clone(), read.clone());
        read
    }

    fn is_too_large(&self, blob: &Blob) -> bool {
        self.model.provider == Provider::Anthropic && blob.data.len() > ANTHROPIC_LIMIT
    }
}

fn names_blobs(content: &Content) -> bool {
    content.blocks().iter().any(|block| blob_of(block).is_some())
}

fn blob_of(block: &ContentBlock) -> Option<&BlobId> {
    match block {
        ContentBlock::Image { source: MediaSource::Blob { blob_id }, .. }
        | ContentBlock::Video { source: MediaSource::Blob { blob_id }, .. } => Some(blob_id),
        _ => None,
    }
}
