//! Decoding of observer registrations.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// A request to call one function after another.
#[derive(Debug)]
pub(crate) struct Observe<'a> {
    pub(crate) id: String,
    pub(crate) source: Source,
    pub(crate) target: Target,
    pub(crate) metadata: Option<&'a RawValue>,
    pub(crate) max_fires: Option<u64>,
    pub(crate) max_in_flight: Option<u32>,
    pub(crate) expires_in_ms: Option<u64>,
}

/// The calls to observe, and the data to capture.
#[derive(Debug, Deserialize)]
pub(crate) struct Source {
    pub(crate) function_id: String,
    pub(crate) args: Option<Value>,
    pub(crate) filters: Option<Value>,
    pub(crate) capture: Option<Vec<String>>,
    pub(crate) on: Option<String>,
    pub(crate) deliver: Option<String>,
}

impl Source {
    /// Returns `true` if a call with this outcome is observed.
    pub(crate) fn wants(&self, success: bool) -> bool {
        match self.on.as_deref() {
            Some("complete") => true,
            Some("error") => !success,
            _ => success,
        }
    }
}

/// The function to call.
#[derive(Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) function_id: String,
}
