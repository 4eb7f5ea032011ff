//! `meerkat_archive`.

use meerkat_contracts::{ArchiveReply, SessionRequest};

use super::{Call, Handle, Impact};
use crate::Error;

pub(super) struct Archive;

impl Handle for Archive {
    const NAME: &'static str = "meerkat_archive";
    const TITLE: &'static str = "Archive a session";
    const DOC: &'static str = "Archive a session: it is hidden from lists and can no longer be resumed. Its history \
        stays readable in a durable realm. An active run is stopped first.";
    const IMPACT: Impact = Impact::Removes;
    type Input = SessionRequest;
    type Output = ArchiveReply;

    async fn handle(call: Call, input: SessionRequest) -> Result<ArchiveReply, Error> {
        let session_id = input.session_id.parse()?;
        call.runtime.sessions().archive(session_id).await?;
        Ok(ArchiveReply { session_id, archived: true })
    }
}
