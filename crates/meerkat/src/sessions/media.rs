//! Images, videos, files, and long texts: stored once in the realm's store. Images and videos are inlined again for
//! models that can see them; a file becomes a placeholder, and a long text is truncated in the middle.
//!
//! Messages refer to blobs by id, so a long conversation does not carry its images along. A missing or unreadable blob
//! is replaced by a text that says so; a run never fails because of an image.

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
use tokio::task::JoinError;

use crate::Error;
use crate::text::head_and_tail;

/// Maximum size of an image for Anthropic, in bytes: five megabytes in base64.
const ANTHROPIC_LIMIT: usize = 5 * 1024 * 1024 / 4 * 3;

/// Maximum text of one tool result for the model, in bytes: about ten thousand tokens.
const MAX_TEXT: usize = 40 * 1024;
/// Minimum length at which a text is truncated, in bytes.
const MIN_TRUNCATED: usize = 1024;

/// Moves inline data of a caller's input into blobs, and returns them.
///
/// # Errors
/// Returns an error if data is not base64, or a blob does not exist.
pub(super) async fn externalize_input(store: &dyn Store, input: &mut RunInput) -> Result<Vec<Blob>, Error> {
    check_blobs(store, "prompt", &input.prompt).await?;
    for (at, result) in input.results.iter().enumerate() {
        check_blobs(store, &format!("tool_results[{at}].content"), &result.content).await?;
    }
    let mut blobs = Vec::new();
    input.prompt = externalize(std::mem::take(&mut input.prompt), &mut blobs)
        .map_err(|index| Error::arguments(format!("`prompt[{index}].data` is not base64")))?;
    for (at, result) in input.results.iter_mut().enumerate() {
        result.content = externalize(std::mem::take(&mut result.content), &mut blobs).map_err(|index| {
            Error::arguments(format!("`tool_results[{at}].content[{index}].data` is not base64"))
        })?;
    }
    Ok(blobs)
}

/// Rejects content that refers to a blob missing from the realm.
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
            return Err(Error::arguments(format!(
                "`{field}[{index}].blob_id`: no blob `{blob_id}` in this realm; use an id that this realm returned, or \
                 send the bytes as `data`"
            )));
        }
    }
    Ok(())
}

/// Removes secrets from a tool's output.
pub(super) async fn redact_output(output: ToolOutput, redactor: Redactor) -> ToolOutput {
    process(output, move |mut output| {
        output.redact(&redactor);
        output
    })
    .await
}

/// Processes a tool's output. A long one is processed on another thread, because it would hold up other runs.
async fn process<T: Send + 'static>(
    output: ToolOutput,
    work: impl FnOnce(ToolOutput) -> T + Send + 'static,
) -> T {
    let length = |block: &ContentBlock| match block {
        ContentBlock::Text { text } => text.len(),
        ContentBlock::Image { source, .. }
        | ContentBlock::Video { source, .. }
        | ContentBlock::File { source, .. } => match source {
            MediaSource::Inline { data } => data.len(),
            MediaSource::Blob { .. } => 0,
        },
    };
    if output.content.blocks().iter().map(length).sum::<usize>() <= MAX_TEXT {
        return work(output);
    }
    match tokio::task::spawn_blocking(move || work(output)).await.map_err(JoinError::try_into_panic) {
        Ok(done) => done,
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        // The process is shutting down.
        Err(Err(_)) => std::future::pending().await,
    }
}

/// Moves inline data of a tool's output, and texts that are too long for the model, into blobs. If that fails, the
/// output is returned with its texts truncated.
pub(super) async fn externalize_output(
    store: &dyn Store,
    output: ToolOutput,
    redactor: Redactor,
) -> ToolOutput {
    let (output, content, blobs) = process(output, move |output| {
        let mut blobs = Vec::new();
        // Truncate long texts even if inline data is invalid.
        let content = externalize(output.content.clone(), &mut blobs);
        let content = content.unwrap_or_else(|_| output.content.clone());
        let content = redact_files(&content, &mut blobs, &redactor);
        let content = truncate_texts(&content, &mut blobs);
        (output.truncated(), content, blobs)
    })
    .await;
    if blobs.is_empty() {
        return output;
    }
    let changes = blobs.into_iter().map(Change::PutBlob).collect();
    match store.commit(Transaction { guards: Vec::new(), changes }).await {
        Ok(_) => ToolOutput { content, ..output },
        Err(_) => output,
    }
}

/// Redacts secrets in file blobs, which were still base64 when the rest of the output was redacted.
fn redact_files(content: &Content, blobs: &mut [Blob], redactor: &Redactor) -> Content {
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

/// Truncates texts that are too long in total: each keeps its share of head and tail, and the full text becomes a blob.
fn truncate_texts(content: &Content, blobs: &mut Vec<Blob>) -> Content {
    let lengths = content.blocks().iter().filter_map(|block| match block {
        ContentBlock::Text { text } => Some(text.len()),
        _ => None,
    });
    let (count, total) = lengths.fold((0, 0), |(count, total), length| (count + 1, total + length));
    if total <= MAX_TEXT {
        return content.clone();
    }
    let share = (MAX_TEXT / count).max(MIN_TRUNCATED);
    let mut truncate = |block: &ContentBlock| match block {
        ContentBlock::Text { text } if text.len() > share => {
            let blob = Blob::new("text/plain", text.clone().into_bytes());
            let text = head_and_tail(text, share, Some(&blob.id));
            blobs.push(blob);
            ContentBlock::Text { text }
        }
        other => other.clone(),
    };
    Content::from(content.blocks().iter().map(&mut truncate).collect::<Vec<_>>())
}

/// Returns the content with inline data replaced by blobs; the error is the index of the block that is not base64.
fn externalize(content: Content, blobs: &mut Vec<Blob>) -> Result<Content, usize> {
    let mut blocks = content.into_blocks();
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

/// Inlines the blobs of messages that the model can see.
pub(super) async fn inline_blobs(
    store: &dyn Store,
    model: &ModelInfo,
    messages: Vec<Arc<Message>>,
) -> Vec<Arc<Message>> {
    let mut reader = Reader { store, model, read: BTreeMap::new() };
    let mut inlined = Vec::with_capacity(messages.len());
    for message in messages {
        let changed = reader.message(&message).await;
        inlined.push(changed.map_or(message, Arc::new));
    }
    inlined
}

/// The part of a conversation that a block belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockOrigin {
    UserMessage,
    ToolResult,
}

/// Reads each blob once.
struct Reader<'a> {
    store: &'a dyn Store,
    model: &'a ModelInfo,
    read: BTreeMap<BlobId, Result<String, &'static str>>,
}

impl Reader<'_> {
    /// Returns the message with its blobs inlined, or `None` if it has no blobs.
    async fn message(&mut self, message: &Message) -> Option<Message> {
        match message {
            Message::User { content, created_at } if has_blobs(content) => {
                let content = self.content(content, BlockOrigin::UserMessage).await;
                Some(Message::User { content, created_at: *created_at })
            }
            Message::ToolResults { results, created_at } if results.iter().any(|r| has_blobs(&r.content)) => {
                let mut out = Vec::with_capacity(results.len());
                for result in results {
                    let content = self.content(&result.content, BlockOrigin::ToolResult).await;
                    out.push(ToolResult { content, ..result.clone() });
                }
                Some(Message::ToolResults { results: out, created_at: *created_at })
            }
            _ => None,
        }
    }

    async fn content(&mut self, content: &Content, origin: BlockOrigin) -> Content {
        let mut blocks = Vec::with_capacity(content.blocks().len());
        for block in content.blocks() {
            blocks.push(match media_blob(block) {
                Some(id) if self.is_visible(block, origin) => self.block(block, id).await,
                _ => block.clone(),
            });
        }
        Content::from(blocks)
    }

    fn is_visible(&self, block: &ContentBlock, origin: BlockOrigin) -> bool {
        let profile = self.model.profile;
        match (block, origin) {
            (ContentBlock::Image { .. }, BlockOrigin::UserMessage) => profile.vision,
            (ContentBlock::Image { .. }, BlockOrigin::ToolResult) => profile.image_tool_results,
            (ContentBlock::Video { .. }, BlockOrigin::UserMessage) => profile.inline_video,
            _ => false,
        }
    }

    async fn block(&mut self, block: &ContentBlock, id: &BlobId) -> ContentBlock {
        let data = match self.data(id).await {
            Ok(data) => data,
            Err(reason) => return ContentBlock::Text { text: format!("{} ({reason})", block.to_text()) },
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

fn has_blobs(content: &Content) -> bool {
    content.blocks().iter().any(|block| media_blob(block).is_some())
}

fn media_blob(block: &ContentBlock) -> Option<&BlobId> {
    match block {
        ContentBlock::Image { source: MediaSource::Blob { blob_id }, .. }
        | ContentBlock::Video { source: MediaSource::Blob { blob_id }, .. } => Some(blob_id),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn long_output_is_processed_on_another_thread() {
        let thread = |length| process(ToolOutput::text("x".repeat(length)), |_| std::thread::current().id());
        let own = std::thread::current().id();
        assert_eq!([thread(10).await == own, thread(1_000_000).await == own], [true, false]);
    }
}
