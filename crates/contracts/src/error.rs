//! The table of errors: codes for each kind of error on each surface.

use meerkat_core::ErrorKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An error as returned by every surface.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorBody {
    /// The stable code.
    pub code: String,
    /// The cause and how to fix it.
    pub message: String,
    /// Machine-readable details.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

/// Codes of an error kind on each surface. On MCP, every kind is a tool result with `isError: true`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorRow {
    /// The kind.
    pub kind: ErrorKind,
    /// The JSON-RPC number.
    pub rpc: i32,
    /// The HTTP status.
    pub http: u16,
    /// The exit code of `rkat`.
    pub exit: u8,
}

/// Returns the codes for an error kind.
#[must_use]
pub const fn error_row(kind: ErrorKind) -> ErrorRow {
    let (rpc, http, exit) = match kind {
        ErrorKind::SessionNotFound => (-32001, 404, 1),
        ErrorKind::SessionBusy => (-32002, 409, 1),
        ErrorKind::PersistenceDisabled => (-32003, 501, 0),
        ErrorKind::CompactionDisabled => (-32004, 501, 0),
        ErrorKind::SessionNotRunning => (-32005, 409, 1),
        ErrorKind::StoreError => (-32006, 500, 1),
        ErrorKind::SessionUnsupported => (-32007, 501, 1),
        ErrorKind::AgentError => (-32000, 500, 1),
        ErrorKind::ProviderError => (-32010, 502, 1),
        ErrorKind::BudgetExhausted => (-32011, 429, 2),
        ErrorKind::HookDenied => (-32012, 403, 1),
        ErrorKind::RequestCancelled => (-32014, 499, 130),
        ErrorKind::DuplicateInput => (-32015, 409, 1),
        ErrorKind::TooManySessions => (-32016, 503, 1),
        ErrorKind::ShuttingDown => (-32017, 503, 1),
        ErrorKind::CapabilityUnavailable => (-32020, 501, 1),
        ErrorKind::SkillNotFound => (-32021, 404, 1),
        ErrorKind::SkillResolutionFailed => (-32022, 422, 1),
        ErrorKind::ScheduleNotFound => (-32023, 404, 1),
        ErrorKind::InvalidParams => (-32602, 400, 2),
        ErrorKind::Internal => (-32603, 500, 1),
    };
    ErrorRow { kind, rpc, http, exit }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn session_rows_match_the_published_codes() {
        let rows = [
            ("SESSION_NOT_FOUND", -32001, 404, 1),
            ("SESSION_BUSY", -32002, 409, 1),
            ("SESSION_PERSISTENCE_DISABLED", -32003, 501, 0),
            ("SESSION_COMPACTION_DISABLED", -32004, 501, 0),
            ("SESSION_NOT_RUNNING", -32005, 409, 1),
            ("SESSION_STORE_ERROR", -32006, 500, 1),
            ("SESSION_UNSUPPORTED", -32007, 501, 1),
            ("AGENT_ERROR", -32000, 500, 1),
        ];
        for (code, rpc, http, exit) in rows {
            let kind = ErrorKind::ALL.iter().find(|kind| kind.code() == code).expect(code);
            assert_eq!(error_row(*kind), ErrorRow { kind: *kind, rpc, http, exit });
        }
    }

    #[test]
    fn codes_and_numbers_are_unique() {
        let codes: BTreeSet<_> = ErrorKind::ALL.iter().map(|kind| kind.code()).collect();
        let numbers: BTreeSet<_> = ErrorKind::ALL.iter().map(|kind| error_row(*kind).rpc).collect();
        assert_eq!((codes.len(), numbers.len()), (ErrorKind::ALL.len(), ErrorKind::ALL.len()));
    }
}
