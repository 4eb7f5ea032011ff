//! `meerkat_capabilities`.

use meerkat_contracts::CapabilityReport;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Call, Handle, Impact};
use crate::Error;

pub(super) struct Capabilities;

/// Nothing to say.
#[derive(Deserialize, JsonSchema)]
pub(super) struct NoInput {}

impl Handle for Capabilities {
    const NAME: &'static str = "meerkat_capabilities";
    const TITLE: &'static str = "List capabilities";
    const DOC: &'static str = "List what this build can do, and for each capability whether it is available, \
        switched off by config or not compiled in.";
    const IMPACT: Impact = Impact::Reads;
    type Input = NoInput;
    type Output = CapabilityReport;

    async fn handle(call: Call, _: NoInput) -> Result<CapabilityReport, Error> {
        call.runtime.capabilities().await
    }
}
