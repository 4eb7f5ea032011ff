//! `rkat image`.

use std::path::Path;

use meerkat::operations::{GenerateImage, arguments};
use meerkat::{BlobId, Error, ImageInput, Runtime};
use serde_json::json;

use super::{call, params, print_json};
use crate::args::ImageArgs;
use crate::compose::open;
use crate::error::CliError;
use crate::out;
use crate::scope::Scope;

pub(super) async fn image(scope: &Scope, args: ImageArgs) -> Result<(), CliError> {
    let runtime = open(scope)?;
    let reply = call::<GenerateImage>(&runtime, request(&args)?).await?;
    reply.warnings.iter().for_each(out::warn);
    let none = || Error::Internal("the reply has no image".to_owned());
    let view = reply.images.first().ok_or_else(none)?;
    let id = &view.blob_ref.blob_id;
    if let Some(path) = &args.output {
        write(&runtime, id, path).await?;
    }
    if args.json {
        print_json(&reply);
    } else if args.output.is_none() {
        out::line(&id.to_string());
    }
    let (width, height) = (view.width, view.height);
    out::stderr_line(&format!("{} · {width}x{height} · {}", view.media_type, reply.model));
    Ok(())
}

fn request(args: &ImageArgs) -> Result<ImageInput, CliError> {
    let params = params(&args.params)?;
    Ok(arguments::<GenerateImage>(json!({
        "prompt": args.prompt,
        "model": args.model,
        "provider": args.provider,
        "size": args.size,
        "quality": args.quality,
        "format": args.format.as_deref().or_else(|| format_for(args.output.as_deref()?)),
        "provider_params": (!params.is_empty()).then_some(params),
    }))?)
}

/// Returns the format for a file extension, unless it is the default format.
fn format_for(path: &Path) -> Option<&'static str> {
    match path.extension()?.to_str()? {
        "jpg" | "jpeg" => Some("jpeg"),
        "webp" => Some("webp"),
        _ => None,
    }
}

async fn write(runtime: &Runtime, id: &BlobId, path: &Path) -> Result<(), CliError> {
    let blob = runtime.blob(id).await?;
    std::fs::write(path, blob.data)
        .map_err(|error| CliError::Io(format!("cannot write `{}`", path.display()), error))
}
