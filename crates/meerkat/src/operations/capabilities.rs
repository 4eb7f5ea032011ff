//! `meerkat_capabilities`.

use meerkat_contracts::CapabilityReport;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Call, Impact, Operation};
use crate::Error;

/// `meerkat_capabilities`.
pub struct Capabilities;

/// Empty input.
#[derive(Deserialize, JsonSchema)]
pub struct NoInput {}

impl Operation for Capabilities {
    const NAME: &'static str = "meerkat_capabilities";
    const TITLE: &'static str = "List capabilities";
    const DOC: &'static str = "List this build's capabilities and whether each is available, disabled by config, or \
        not compiled in.";
    const IMPACT: Impact = Impact::ReadOnly;
    type Input = NoInput;
    type Output = CapabilityReport;

    async fn call(call: Call, _: NoInput) -> Result<CapabilityReport, Error> {
        call.runtime.capabilities().await
    }
}
