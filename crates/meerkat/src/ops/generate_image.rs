//! `meerkat_generate_image`.

use meerkat_contracts::{ImageInput, ImageReply};

use super::{Call, Handle, Impact};
use crate::Error;

pub(super) struct GenerateImage;

impl Handle for GenerateImage {
    const NAME: &'static str = "meerkat_generate_image";
    const TITLE: &'static str = "Make an image";
    const DOC: &'static str = "Make an image from a description, or change one, with an image model of OpenAI or \
        Gemini. The reply names the image by a blob id; the bytes stay in the realm's store.";
    const IMPACT: Impact = Impact::Makes;
    type Input = ImageInput;
    type Output = ImageReply;

    async fn handle(call: Call, input: ImageInput) -> Result<ImageReply, Error> {
        tokio::select! {
            made = call.runtime.generate_image(input) => made,
            () = call.control.cancel.cancelled() => Err(Error::Abandoned),
        }
    }
}
