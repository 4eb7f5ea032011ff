//! Image generation: requests, providers, and storage.
//!
//! An image is stored as a blob of the realm before it is returned. The tool adds it to its session's conversation;
//! the operation only returns its id.

mod request;
mod tool;

use std::sync::Arc;
use std::time::Duration;

use meerkat_contracts::{ImageEnd, ImageInput, ImageReply, ImageTerminal, ImageView};
use meerkat_core::{
    AssistantImage, BlobRef, Image, ImageModel, ImageResponse, ModelError, ModelErrorKind, SessionId,
};
use meerkat_store::{Blob, Change, Store, Transaction};
use uuid::Uuid;

use super::ToolsError;
use crate::config::Config;
use crate::models::Models;

pub(super) use tool::source;

/// Timeout for generating an image.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Result of an image request.
pub(crate) struct GeneratedImages {
    pub(crate) reply: ImageReply,
    pub(crate) images: Vec<AssistantImage>,
}

/// Generates and stores images.
pub(crate) struct Images {
    pub(crate) models: Arc<Models>,
    pub(crate) store: Arc<dyn Store>,
}

impl Images {
    /// Generates or edits an image, optionally for a session.
    pub(crate) async fn generate(
        &self,
        config: &Config,
        input: ImageInput,
        session: Option<SessionId>,
    ) -> Result<GeneratedImages, ToolsError> {
        let provider = input.provider.map(Into::into);
        let model = self.models.providers().image_model(provider, input.model.as_deref(), config)?;
        let request = request::read(&*self.store, input, session).await?;
        let response = match tokio::time::timeout(TIMEOUT, model.generate(&request)).await {
            Ok(response) => response,
            Err(_) => Err(timeout_error(&*model)),
        };
        let response = response.map_err(|source| ToolsError::Image { end: end(source.kind), source })?;
        put(&*self.store, &*model, response).await
    }
}

fn timeout_error(model: &dyn ImageModel) -> ModelError {
    ModelError {
        kind: ModelErrorKind::CallTimeout,
        provider: model.provider(),
        status: None,
        retry_after: None,
        message: format!("no image within {} s", TIMEOUT.as_secs()),
    }
}

/// Maps a model error to the public outcome.
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

/// Stores the images and builds the reply.
async fn put(
    store: &dyn Store,
    model: &dyn ImageModel,
    response: ImageResponse,
) -> Result<GeneratedImages, ToolsError> {
    let mut images = Vec::with_capacity(response.images.len());
    let mut changes = Vec::with_capacity(response.images.len());
    for Image { media_type, width, height, data } in response.images {
        let blob = Blob::new(media_type.clone(), data);
        let blob_ref = BlobRef { blob_id: blob.id.clone(), media_type: media_type.clone() };
        changes.push(Change::PutBlob(blob));
        images.push(AssistantImage {
            image_id: Uuid::now_v7().to_string(),
            blob_ref,
            media_type,
            width,
            height,
            revised_prompt: response.revised_prompt.clone(),
            meta: None,
        });
    }
    store.commit(Transaction { guards: Vec::new(), changes }).await?;
    let reply = ImageReply {
        operation_id: Uuid::now_v7().to_string(),
        terminal: ImageTerminal { terminal: ImageEnd::Generated },
        images: images.iter().map(view).collect(),
        provider_text: response.text,
        revised_prompt: response.revised_prompt,
        native_metadata: response.metadata,
        warnings: response.warnings,
        provider: model.provider(),
        model: model.id().to_owned(),
    };
    Ok(GeneratedImages { reply, images })
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
