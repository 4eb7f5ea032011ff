//! The closed list of what can go wrong, as callers see it.
//!
//! A kind has one identity, its string code. Numbers, HTTP statuses and exit codes are derived from it in
//! `meerkat-contracts`; policy anywhere looks at the kind and never at a message.

use std::fmt;

use serde::{Serialize, Serializer};

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident = $code:literal,)*) => {
        /// What went wrong, named by a stable code.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ErrorKind { $($(#[$doc])* $variant,)* }

        impl ErrorKind {
            /// Every kind, in the order of the reference page.
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
    /// No session has this id, or it is archived and the request needs a live one.
    SessionNotFound = "SESSION_NOT_FOUND",
    /// A run is in flight on the session; nothing is queued, so try again when it has ended.
    SessionBusy = "SESSION_BUSY",
    /// The request needs durable sessions and this build or realm has none.
    PersistenceDisabled = "SESSION_PERSISTENCE_DISABLED",
    /// Compaction was asked for and is not compiled in.
    CompactionDisabled = "SESSION_COMPACTION_DISABLED",
    /// There is no run in flight to act on.
    SessionNotRunning = "SESSION_NOT_RUNNING",
    /// The store could not read or write.
    StoreError = "SESSION_STORE_ERROR",
    /// The session exists but cannot do this.
    SessionUnsupported = "SESSION_UNSUPPORTED",
    /// The run ended in failure, its provider's refusals included; `error_class` says of which sort. What it had
    /// committed is kept.
    AgentError = "AGENT_ERROR",
    /// The same input was already accepted.
    DuplicateInput = "DUPLICATE_INPUT",
    /// The run was interrupted or its request cancelled.
    RequestCancelled = "REQUEST_CANCELLED",
    /// No model can be asked: nobody serves it or there is no key for it; or no image was made.
    ProviderError = "PROVIDER_ERROR",
    /// A budget ran out where that is an error.
    BudgetExhausted = "BUDGET_EXHAUSTED",
    /// A hook refused.
    HookDenied = "HOOK_DENIED",
    /// The capability is not compiled in or is switched off.
    CapabilityUnavailable = "CAPABILITY_UNAVAILABLE",
    /// No skill has this key.
    SkillNotFound = "SKILL_NOT_FOUND",
    /// The skill exists but could not be resolved.
    SkillResolutionFailed = "SKILL_RESOLUTION_FAILED",
    /// No schedule has this id.
    ScheduleNotFound = "SCHEDULE_NOT_FOUND",
    /// The request itself is wrong.
    InvalidParams = "INVALID_PARAMS",
    /// A fault of ours.
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
