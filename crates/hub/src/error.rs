//! What can go wrong with a call, and with the hub itself.

use std::fmt;
use std::time::Duration;

use serde_json::Value;

use crate::wire::Object;

/// Why a call failed, in the words of the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallError {
    /// A code such as `function_not_found`.
    pub code: String,
    /// What happened.
    pub message: String,
    /// Where, if the callee told.
    pub stacktrace: Option<String>,
}

/// Nobody answered in time.
const TIMEOUT: &str = "TIMEOUT";
/// No function has the id.
const NOT_FOUND: &str = "function_not_found";
/// There is no connection to the hub.
const NOT_CONNECTED: &str = "NOT_CONNECTED";

impl CallError {
    /// An error with this code.
    #[must_use]
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), stacktrace: None }
    }

    /// The function itself failed.
    #[must_use]
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new("invocation_failed", message)
    }

    /// Nobody answered within this time.
    #[must_use]
    pub fn timeout(after: Duration) -> Self {
        Self::new(TIMEOUT, format!("invocation timed out after {}ms", after.as_millis()))
    }

    /// There is no connection to the hub.
    #[must_use]
    pub fn not_connected() -> Self {
        Self::new(NOT_CONNECTED, "iii is not connected")
    }

    /// The input of a function of the hub does not fit.
    #[must_use]
    pub fn undecodable(function_id: &str, problem: &str) -> Self {
        let message = format!("Failed to deserialize input for {function_id}: {problem}");
        Self::new("deserialization_error", message)
    }

    /// Returns true if no function has the id that was called.
    pub(crate) fn is_not_found(&self) -> bool {
        self.code == NOT_FOUND
    }

    pub(crate) fn not_found(function_id: &str) -> Self {
        Self::new(NOT_FOUND, format!("Function {function_id} not found in namespace default."))
    }

    pub(crate) fn not_invokable(function_id: &str) -> Self {
        let text = "is behind a URL, and this hub fetches nothing for workers; register a handler instead";
        Self::new("function_not_invokable", format!("Function {function_id} {text}"))
    }

    pub(crate) fn stopped() -> Self {
        Self::new("invocation_stopped", "Invocation stopped")
    }

    pub(crate) fn forbidden(function_id: &str) -> Self {
        let message = format!("function '{function_id}' not allowed (add to rbac.expose_functions)");
        Self::new("FORBIDDEN", message)
    }

    pub(crate) fn too_many(limit: usize) -> Self {
        let message =
            format!("{limit} calls of this worker are unanswered; do its functions call each other?");
        Self::new("invocation_error", message)
    }

    pub(crate) fn too_large(bytes: usize, limit: usize) -> Self {
        Self::new("payload_too_large", format!("the message has {bytes} bytes; the receiver takes {limit}"))
    }

    /// The error as it is sent.
    pub(crate) fn json(&self) -> String {
        Object::new()
            .text("code", &self.code)
            .text("message", &self.message)
            .maybe_text("stacktrace", self.stacktrace.as_deref())
            .end()
    }

    /// An error as a worker wrote it.
    pub(crate) fn decode(text: &str) -> Self {
        let value: Value = serde_json::from_str(text).unwrap_or_default();
        let field = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        Self {
            code: field("code").unwrap_or_else(|| "invocation_failed".to_owned()),
            message: field("message").unwrap_or_else(|| text.to_owned()),
            stacktrace: field("stacktrace"),
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code.as_str() {
            TIMEOUT => formatter.write_str("invocation timed out"),
            NOT_CONNECTED => formatter.write_str("iii is not connected"),
            code => write!(formatter, "remote error ({code}): {}", self.message),
        }
    }
}

impl std::error::Error for CallError {}

/// Why the hub or a client of it cannot start.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// The address is not one.
    #[error("`{address}` is not an address; give HOST:PORT")]
    Address {
        /// What was given.
        address: String,
    },
    /// Others could reach the hub, and nothing would ask who they are.
    #[error("`{address}` can be reached by other machines; give a token that workers must show")]
    Exposed {
        /// What was given.
        address: String,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on `{address}`")]
    Listen {
        /// What was given.
        address: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The id is taken.
    #[error("`{id}` belongs to the hub already")]
    Taken {
        /// The function or trigger type.
        id: String,
    },
    /// The address of a hub is not one that a client can reach.
    #[error("`{url}` is not the address of a hub; it looks like ws://127.0.0.1:49134")]
    Url {
        /// What was given.
        url: String,
    },
    /// The hub cannot be reached.
    #[error("no hub at `{url}`")]
    Unreachable {
        /// Where.
        url: String,
        /// Why.
        #[source]
        source: Box<tokio_tungstenite::tungstenite::Error>,
    },
}
