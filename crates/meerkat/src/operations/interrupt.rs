//! `meerkat_interrupt`.

use meerkat_contracts::{InterruptReply, SessionRequest};

use super::{Call, Impact, Operation};
use crate::Error;

/// `meerkat_interrupt`.
pub struct Interrupt;

impl Operation for Interrupt {
    const NAME: &'static str = "meerkat_interrupt";
    const TITLE: &'static str = "Interrupt a run";
    const DOC: &'static str = "Interrupt a session's active run, in any process. Completed steps are kept and the \
        session can be resumed. SESSION_NOT_RUNNING means there was nothing to interrupt.";
    const IMPACT: Impact = Impact::Idempotent;
    type Input = SessionRequest;
    type Output = InterruptReply;

    async fn call(call: Call, input: SessionRequest) -> Result<InterruptReply, Error> {
        let session_id = input.session_id;
        call.runtime.sessions().interrupt(session_id).await?;
        Ok(InterruptReply { session_id, interrupted: true })
    }
}
