//! `meerkat_archive`.

use meerkat_contracts::{ArchiveReply, SessionRequest};
use meerkat_core::SessionId;

use super::{Call, Impact, Operation};
use crate::Error;

/// `meerkat_archive`.
pub struct Archive;

impl Operation for Archive {
    const NAME: &'static str = "meerkat_archive";
    const TITLE: &'static str = "Archive a session";
    const DOC: &'static str = "Archive a session: it is hidden from lists and can no longer be resumed. Its history \
        stays readable in a durable realm. An active run is stopped first.";
    const IMPACT: Impact = Impact::Destructive;
    type Input = SessionRequest;
    type Output = ArchiveReply;

    async fn call(call: Call, input: SessionRequest) -> Result<ArchiveReply, Error> {
        let session_id = input.session_id;
        call.runtime.sessions().archive(session_id).await?;
        Ok(ArchiveReply { session_id, archived: true })
    }

    fn session(reply: &ArchiveReply) -> Option<SessionId> {
        Some(reply.session_id)
    }
}
