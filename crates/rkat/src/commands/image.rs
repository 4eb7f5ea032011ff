//! `rkat image`.

use std::path::Path;
use std::process::ExitCode;

use meerkat::{BlobId, Runtime};
use serde_json::{Map, Value, json};

use super::{call, pairs, print_json};
use crate::args::ImageArgs;
use crate::compose::open;
use crate::error::CliError;
use crate::out;
use crate::scope::Scope;

pub(super) async fn image(scope: &Scope, args: ImageArgs) -> Result<ExitCode, CliError> {
    let runtime = open(scope)?;
    let reply = call(&runtime, "meerkat_generate_image", request(&args)?).await?;
    for warning in reply["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        out::stderr_line(&format!("warning: {warning}"));
    }
    let view = &reply["images"][0];
    let id = view["blob_ref"]["blob_id"].as_str().unwrap_or_default();
    if let Some(path) = &args.output {
        write(&runtime, &id.parse()?, path).await?;
    }
    if args.json {
        print_json(&reply);
    } else if args.output.is_none() {
        out::line(id);
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    out::stderr_line(&format!(
        "{} · {}x{} · {}",
        text(&view["media_type"]),
        view["width"],
        view["height"],
        text(&reply["model"])
    ));
    Ok(ExitCode::SUCCESS)
}

fn request(args: &ImageArgs) -> Result<Value, CliError> {
    let params: Map<String, Value> = pairs(&args.params)?
        .into_iter()
        .map(|(key, text)| (key, serde_json::from_str(&text).unwrap_or(Value::String(text))))
        .collect();
    Ok(json!({
        "prompt": args.prompt,
        "model": args.model,
        "provider": args.provider,
        "size": args.size,
        "quality": args.quality,
        "format": args.format.as_deref().or_else(|| format_for(args.output.as_deref()?)),
        "provider_params": (!params.is_empty()).then_some(params),
    }))
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
