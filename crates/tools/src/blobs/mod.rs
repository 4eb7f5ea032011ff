//! Tools that move files into the blob store and out of it.

mod inspect;
mod load;
mod save;

pub(crate) use inspect::BlobInspect;
pub(crate) use load::BlobLoadFile;
pub(crate) use save::BlobSaveFile;

use meerkat_core::BlobId;

use crate::Error;
use crate::storage::{StoredBlob, ToolStorage};

/// Returns the blob with an id from a model.
async fn find(shelf: &dyn ToolStorage, id: &str) -> Result<(BlobId, StoredBlob), Error> {
    let id: BlobId = id.parse()?;
    let blob = shelf.blob(id.clone()).await?;
    blob.map(|blob| (id.clone(), blob)).ok_or(Error::NoBlob(id))
}
