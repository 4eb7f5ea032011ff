//! Validation of image requests and loading of the images they refer to.

use meerkat_contracts::{ImageInput, ImageIntent, ImageRef};
use meerkat_core::{AssistantBlock, BlobId, Image, ImageRequest, ImageSize, Message, SessionId, excerpt};
use meerkat_store::Store;

use super::super::ToolsError;
use crate::records::message;
use crate::request_error::RequestError;

/// Validates a request and loads the images it refers to.
pub(super) async fn read(
    store: &dyn Store,
    input: ImageInput,
    session: Option<SessionId>,
) -> Result<ImageRequest, ToolsError> {
    check(&input)?;
    let size = input.size.as_deref().unwrap_or("auto");
    let size = ImageSize::parse(size).ok_or_else(|| {
        invalid(format!("`size`: `{}` must be `auto` or pixels such as `1024x1024`", excerpt(size)))
    })?;
    let prompt = match input.intent.unwrap_or_default() {
        ImageIntent::Generate => input.prompt,
        ImageIntent::Edit => input.instruction,
    };
    let load = |refs: Option<Vec<ImageRef>>| images(store, refs.unwrap_or_default(), session);
    Ok(ImageRequest {
        prompt: prompt.unwrap_or_default(),
        sources: load(input.source_images).await?,
        references: load(input.reference_images).await?,
        size,
        quality: input.quality.unwrap_or_default(),
        format: input.format.unwrap_or_default().into(),
        params: input.provider_params.unwrap_or_default(),
    })
}

fn check(input: &ImageInput) -> Result<(), ToolsError> {
    let is_blank = |text: &Option<String>| text.as_deref().unwrap_or_default().trim().is_empty();
    let has_sources = input.source_images.as_ref().is_some_and(|list| !list.is_empty());
    let rule = match input.intent.unwrap_or_default() {
        ImageIntent::Generate if is_blank(&input.prompt) => "`prompt` is missing: describe the image",
        ImageIntent::Generate if has_sources => {
            "`source_images` are for `intent: \"edit\"`; use `reference_images`"
        }
        ImageIntent::Edit if is_blank(&input.instruction) => "`instruction` is missing: describe the change",
        ImageIntent::Edit if !has_sources => "`source_images` is missing: name the image to change",
        _ if input.count.or(input.n).is_some_and(|count| count != 1) => {
            "`count` must be 1; send another request for another image"
        }
        _ => return Ok(()),
    };
    Err(invalid(rule))
}

async fn images(
    store: &dyn Store,
    refs: Vec<ImageRef>,
    session: Option<SessionId>,
) -> Result<Vec<Image>, ToolsError> {
    let mut images = Vec::with_capacity(refs.len());
    for image in refs {
        let id = match image {
            ImageRef::Blob { blob_ref } => blob_ref.blob_id,
            ImageRef::AssistantImage { image_id } => find_generated(store, &image_id, session).await?,
        };
        let blob = store.blob(id.clone()).await?;
        let blob = blob.ok_or_else(|| invalid(format!("no blob `{id}` in this realm")))?;
        let decoded = Image::read(blob.data);
        images.push(
            decoded.ok_or_else(|| invalid(format!("blob `{id}` is not a PNG, JPEG, GIF, or WebP image")))?,
        );
    }
    Ok(images)
}

/// Finds a generated image of the session, searching the latest messages first.
async fn find_generated(
    store: &dyn Store,
    image_id: &str,
    session: Option<SessionId>,
) -> Result<BlobId, ToolsError> {
    const PAGE_SIZE: u64 = 64;
    let unknown = || {
        let id = excerpt(image_id);
        invalid(format!("no image of this session has the id `{id}`; refer to it by its blob id"))
    };
    let session = session.ok_or_else(unknown)?;
    let mut end = store.session(session).await?.map_or(0, |row| row.message_count);
    while end > 0 {
        let start = end.saturating_sub(PAGE_SIZE);
        for row in store.messages(session, start, end - start).await?.iter().rev() {
            let Message::Assistant { blocks, .. } = message(row)? else { continue };
            let blob_id = blocks.into_iter().find_map(|block| match block {
                AssistantBlock::Image(image) if image.image_id == image_id => Some(image.blob_ref.blob_id),
                _ => None,
            });
            if let Some(id) = blob_id {
                return Ok(id);
            }
        }
        end = start;
    }
    Err(unknown())
}

fn invalid(what: impl Into<String>) -> ToolsError {
    RequestError::Arguments(what.into()).into()
}
