//! `meerkat_generate_image`.

use meerkat_contracts::{ImageInput, ImageReply};

use super::{Call, Impact, Operation};
use crate::Error;

/// `meerkat_generate_image`.
pub struct GenerateImage;

impl Operation for GenerateImage {
    const NAME: &'static str = "meerkat_generate_image";
    const TITLE: &'static str = "Generate an image";
    const DOC: &'static str = "Generate or edit an image with OpenAI or Gemini. Returns a blob id; the bytes stay in \
        the realm's store.";
    const IMPACT: Impact = Impact::Creates;
    const CHECKS_BOUNDS: bool = true;
    type Input = ImageInput;
    type Output = ImageReply;

    async fn call(call: Call, input: ImageInput) -> Result<ImageReply, Error> {
        tokio::select! {
            reply = call.runtime.generate_image(input) => reply,
            () = call.control.cancel.cancelled() => Err(Error::RequestCancelled),
        }
    }
}
