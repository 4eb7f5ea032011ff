//! The tool `generate_image`.

use std::sync::Arc;

use meerkat_contracts::ImageInput;
use meerkat_core::{
    BoxFuture, Content, ContentBlock, Invocation, MediaSource, Tool, ToolDef, ToolFailure, ToolImpact,
    ToolOutput, ToolSource, decode, input_schema,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::{FixedTools, ToolsError};
use super::{GeneratedImages, Images};
use crate::coded::Coded as _;
use crate::config::Config;
use crate::models::ModelsError;
use crate::request_error::RequestError;

/// The arguments of the tool.
#[derive(Deserialize, JsonSchema)]
struct Arguments {
    /// The image to generate or edit.
    request: ImageInput,
}

/// Returns the tool, if a provider of images is available.
pub(crate) fn source(images: &Arc<Images>, config: &Arc<Config>) -> Option<Arc<dyn ToolSource>> {
    images.models.providers().image_provider()?;
    let def = ToolDef {
        name: "generate_image".to_owned(),
        description:
            "Generate an image from a description, or edit one. The result contains the image's blob id; \
            the image itself becomes part of the conversation."
                .to_owned(),
        input_schema: input_schema::<Arguments>(),
    };
    let tool = GenerateImage { def, images: Arc::clone(images), config: Arc::clone(config) };
    Some(Arc::new(FixedTools(vec![Arc::new(tool)])))
}

struct GenerateImage {
    def: ToolDef,
    images: Arc<Images>,
    config: Arc<Config>,
}

impl Tool for GenerateImage {
    fn def(&self) -> &ToolDef {
        &self.def
    }

    fn impact(&self) -> ToolImpact {
        ToolImpact::Additive
    }

    fn call(&self, invocation: Invocation) -> BoxFuture<'_, ToolOutput> {
        Box::pin(async move {
            let session = Some(invocation.session_id);
            let input = match arguments(invocation.call.args) {
                Ok(input) => input,
                Err(error) => return failed(&error),
            };
            match self.images.generate(&self.config, input, session).await {
                Ok(generated) => success(generated),
                Err(error) => failed(&error),
            }
        })
    }
}

/// Parses the arguments. Also accepts them without the outer object, which some models omit.
fn arguments(args: Value) -> Result<ImageInput, ToolsError> {
    let input = match args.get("request") {
        Some(_) => decode::<Arguments>(args).map(|arguments| arguments.request),
        None => decode(args),
    };
    input.map_err(|reason| RequestError::Arguments(reason).into())
}

fn success(generated: GeneratedImages) -> ToolOutput {
    let mut blocks = vec![ContentBlock::Text { text: json!(generated.reply).to_string() }];
    blocks.extend(generated.images.iter().map(|image| ContentBlock::Image {
        media_type: image.media_type.clone(),
        source: MediaSource::Blob { blob_id: image.blob_ref.blob_id.clone() },
    }));
    ToolOutput { content: Content::from(blocks), is_error: false, images: generated.images }
}

fn failed(error: &ToolsError) -> ToolOutput {
    let failure = match error {
        ToolsError::Request(RequestError::Arguments(_)) => ToolFailure::InvalidArguments,
        ToolsError::Models(ModelsError::Unusable { .. }) => ToolFailure::Unavailable,
        _ => ToolFailure::ExecutionFailed,
    };
    let mut body = json!({ "error": failure.code(), "message": error.body().message });
    if let ToolsError::Image { end, .. } = error {
        body["terminal"] = json!({ "terminal": end });
    }
    ToolOutput { is_error: true, ..ToolOutput::text(body.to_string()) }
}
