//! Errors of requests other than tool calls.

use meerkat::{Error, ErrorKind, excerpt};
use rmcp::ErrorData;
use serde_json::json;

pub(super) fn not_found(uri: &str) -> ErrorData {
    not_found_because(uri, format!("unknown resource `{}`", excerpt(uri)))
}

/// Builds the error of a resource that does not exist. Its data contains the URI, or the start of a long one.
pub(super) fn not_found_because(uri: &str, reason: String) -> ErrorData {
    ErrorData::resource_not_found(reason, Some(json!({ "uri": excerpt(uri) })))
}

/// Builds the error of a failed request. Only the codes of JSON-RPC itself are used, because MCP assigns other meanings
/// to some of the codes that error kinds have elsewhere.
pub(super) fn failed(error: &Error) -> ErrorData {
    let body = serde_json::to_value(error.body()).unwrap_or_default();
    match error.kind() {
        ErrorKind::InvalidParams => ErrorData::invalid_params(error.to_string(), Some(body)),
        _ => ErrorData::internal_error(error.to_string(), Some(body)),
    }
}
