//! Making images: what is asked for, who is asked, and where the images go.
//!
//! An image becomes a blob of the realm before anybody is told of it. The tool puts it into its session's
//! conversation; the operation only names it.

mod request;
mod tool;

use std::time::Duration;

use meerkat_contracts::{ImageEnd, ImageInput, ImageReply, ImageTerminal, ImageView};
use meerkat_core::{
    AssistantImage, BlobRef, ImageAnswer, ImageModel, ModelError, ModelErrorKind, Picture, SessionId,
};
use meerkat_store::{Blob, Change, Transaction};
use uuid::Uuid;

use crate::Error;
use crate::config::Config;
use crate::runtime::Shared;

pub(crate) use tool::source;

/// How long an image may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// What was made.
pub(crate) struct Made {
    pub(crate) reply: ImageReply,
    pub(crate) images: Vec<AssistantImage>,
}

/// Makes an image for a session, or for nobody's.
pub(crate) async fn make(
    shared: &Shared,
    config: &Config,
    input: ImageInput,
    session: Option<SessionId>,
) -> Result<Made, Error> {
    let provider = input.provider.map(Into::into);
    let model = shared.models.providers().image_model(provider, input.model.as_deref(), config)?;
    let request = request::read(shared, input, session).await?;
    let answer = match tokio::time::timeout(PATIENCE, model.draw(&request)).await {
        Ok(answer) => answer,
        Err(_) => Err(too_slow(&*model)),
    };
    let answer = answer.map_err(|source| Error::Image { end: end(source.kind), source })?;
    keep(shared, &*model, answer).await
}

fn too_slow(model: &dyn ImageModel) -> ModelError {
    ModelError {
        kind: ModelErrorKind::CallTimeout,
        provider: model.provider(),
        status: None,
        retry_after: None,
        message: format!("no image within {} s", PATIENCE.as_secs()),
    }
}

/// Sorts a failure by how the public list calls it.
const fn end(kind: ModelErrorKind) -> ImageEnd {
    match kind {
        ModelErrorKind::ContentFilter => ImageEnd::SafetyFiltered,
        ModelErrorKind::Incomplete => ImageEnd::EmptyResult,
        ModelErrorKind::Auth => ImageEnd::Denied,
        ModelErrorKind::BadRequest | ModelErrorKind::ContextOverflow => ImageEnd::RefusedByProvider,
        ModelErrorKind::CallTimeout | ModelErrorKind::NetworkTimeout => ImageEnd::Timeout,
        ModelErrorKind::RateLimited
        | ModelErrorKind::Overloaded
        | ModelErrorKind::Connection
        | ModelErrorKind::Server
        | ModelErrorKind::StreamCut
        | ModelErrorKind::Malformed => ImageEnd::Failed,
    }
}

/// Stores the images and describes them.
async fn keep(shared: &Shared, model: &dyn ImageModel, answer: ImageAnswer) -> Result<Made, Error> {
    let mut images = Vec::with_capacity(answer.pictures.len());
    let mut changes = Vec::with_capacity(answer.pictures.len());
    for Picture { media_type, width, height, data } in answer.pictures {
        let blob = Blob::new(media_type.clone(), data);
        let blob_ref = BlobRef { blob_id: blob.id.clone(), media_type: media_type.clone() };
        changes.push(Change::PutBlob(blob));
        images.push(AssistantImage {
            image_id: Uuid::now_v7().to_string(),
            blob_ref,
            media_type,
            width,
            height,
            revised_prompt: answer.revised_prompt.clone(),
            meta: None,
        });
    }
    shared.store.commit(Transaction { guards: Vec::new(), changes }).await?;
    let reply = ImageReply {
        operation_id: Uuid::now_v7().to_string(),
        terminal: ImageTerminal { terminal: ImageEnd::Generated },
        images: images.iter().map(view).collect(),
        provider_text: answer.text,
        revised_prompt: answer.revised_prompt,
        native_metadata: answer.metadata,
        warnings: answer.warnings,
        provider: model.provider(),
        model: model.id().to_owned(),
    };
    Ok(Made { reply, images })
}

fn view(image: &AssistantImage) -> ImageView {
    ImageView {
        image_id: image.image_id.clone(),
        blob_ref: image.blob_ref.clone(),
        media_type: image.media_type.clone(),
        width: image.width,
        height: image.height,
    }
}
