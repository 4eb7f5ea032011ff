//! `rkat blob`.

use meerkat::operations::BlobGet;
use meerkat_contracts::BlobRequest;

use super::{call, print_json};
use crate::args::BlobCommand;
use crate::compose::open_known;
use crate::env;
use crate::error::CliError;
use crate::out;
use crate::scope::Scope;

pub(super) async fn blob(scope: &Scope, command: BlobCommand) -> Result<(), CliError> {
    let BlobCommand::Get { id, output, json } = command;
    let runtime = open_known(scope)?;
    let id = id.parse()?;
    if json {
        print_json(&call::<BlobGet>(&runtime, BlobRequest { blob_id: id }).await?);
        return Ok(());
    }
    let blob = runtime.blob(&id).await?;
    let is_text = blob.media_type.starts_with("text/") || blob.media_type == "application/json";
    match output {
        Some(file) => std::fs::write(&file, &blob.data)
            .map_err(|error| CliError::Io(format!("cannot write the blob to `{}`", file.display()), error))?,
        None if !is_text && env::stdout_is_terminal() => {
            let message = format!("cannot print {} to a terminal; use -o FILE", blob.media_type);
            return Err(CliError::Usage(message));
        }
        None => out::bytes(&blob.data),
    }
    Ok(())
}
