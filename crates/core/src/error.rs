//! The closed list of error kinds that callers see.
//!
//! A kind is identified by its string code. Numbers, HTTP statuses, and exit codes are derived from it in
//! `meerkat-contracts`; policy always depends on the kind and never on a message.

use std::fmt;

use serde::{Serialize, Serializer};

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident = $code:literal,)*) => {
        /// Kind of an error, identified by a stable code.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ErrorKind { $($(#[$doc])* $variant,)* }

        impl ErrorKind {
            /// All kinds, in the order of the reference page.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Returns the stable code.
            #[must_use]
            pub const fn code(self) -> &'static str {
                match self { $(Self::$variant => $code,)* }
            }
        }
    };
}

kinds! {
    /// No session has this id, or it is archived and the request needs one that is not.
    SessionNotFound = "SESSION_NOT_FOUND",
    /// The session has an active run. Requests are not queued; try again after the run has ended.
    SessionBusy = "SESSION_BUSY",
    /// The request needs durable sessions, which this build or realm does not have.
    PersistenceDisabled = "SESSION_PERSISTENCE_DISABLED",
    /// Compaction was requested but is not compiled in.
    CompactionDisabled = "SESSION_COMPACTION_DISABLED",
    /// The session has no active run.
    SessionNotRunning = "SESSION_NOT_RUNNING",
    /// Reading from or writing to the store failed.
    StoreError = "SESSION_STORE_ERROR",
    /// The session does not support the operation.
    SessionUnsupported = "SESSION_UNSUPPORTED",
    /// The run failed, possibly because the provider rejected a request; `error_class` gives the class of the failure.
    /// Committed steps are kept.
    AgentError = "AGENT_ERROR",
    /// The same input was already accepted.
    DuplicateInput = "DUPLICATE_INPUT",
    /// The run was interrupted or its request was cancelled.
    RequestCancelled = "REQUEST_CANCELLED",
    /// The process runs as many sessions as `limits.max_sessions` allows. Try again when a run has ended.
    TooManySessions = "TOO_MANY_SESSIONS",
    /// The process is shutting down and starts no runs. Nothing was stored; send the request to another process.
    ShuttingDown = "SHUTTING_DOWN",
    /// No model is available (unknown model or missing API key), or image generation failed.
    ProviderError = "PROVIDER_ERROR",
    /// A budget was exhausted in an operation that cannot return a partial result.
    BudgetExhausted = "BUDGET_EXHAUSTED",
    /// A hook denied the operation.
    HookDenied = "HOOK_DENIED",
    /// The capability is not compiled in or is disabled.
    CapabilityUnavailable = "CAPABILITY_UNAVAILABLE",
    /// No skill has this key.
    SkillNotFound = "SKILL_NOT_FOUND",
    /// The skill exists but could not be resolved.
    SkillResolutionFailed = "SKILL_RESOLUTION_FAILED",
    /// No schedule has this id.
    ScheduleNotFound = "SCHEDULE_NOT_FOUND",
    /// The request is invalid.
    InvalidParams = "INVALID_PARAMS",
    /// An internal error.
    Internal = "INTERNAL_ERROR",
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl Serialize for ErrorKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.code())
    }
}
