//! Errors of calls, and of the hub itself.

use std::fmt;
use std::time::Duration;

use serde_json::Value;

use crate::wire::Object;

/// A failed call, in the protocol's terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallError {
    /// A code such as `function_not_found`.
    pub code: String,
    /// Description of the failure.
    pub message: String,
    /// Stack trace, if the callee sent one.
    pub stacktrace: Option<String>,
}

/// The call timed out.
const TIMEOUT: &str = "TIMEOUT";
/// No function has the id.
const NOT_FOUND: &str = "function_not_found";
/// There is no connection to the hub.
const NOT_CONNECTED: &str = "NOT_CONNECTED";

impl CallError {
    /// Creates an error with this code.
    #[must_use]
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), stacktrace: None }
    }

    /// Creates an error for a function that failed.
    #[must_use]
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new("invocation_failed", message)
    }

    /// Creates an error for a call that got no answer within this time.
    #[must_use]
    pub fn timeout(after: Duration) -> Self {
        Self::new(TIMEOUT, format!("invocation timed out after {}ms", after.as_millis()))
    }

    /// Creates an error for a missing connection to the hub.
    #[must_use]
    pub fn not_connected() -> Self {
        Self::new(NOT_CONNECTED, "iii is not connected")
    }

    /// Creates an error for invalid input of a hub function.
    #[must_use]
    pub fn undecodable(function_id: &str, problem: &str) -> Self {
        let message = format!("Failed to deserialize input for {function_id}: {problem}");
        Self::new("deserialization_error", message)
    }

    /// Returns `true` if no function has the id that was called.
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

    /// Returns the error in its wire format.
    pub(crate) fn json(&self) -> String {
        Object::new()
            .text("code", &self.code)
            .text("message", &self.message)
            .maybe_text("stacktrace", self.stacktrace.as_deref())
            .end()
    }

    /// Parses an error that a worker sent.
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

/// An error that prevents the hub or a client from starting.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// The address is invalid.
    #[error("invalid address `{address}`; expected HOST:PORT")]
    Address {
        /// The configured address.
        address: String,
    },
    /// Other machines could reach the hub without authentication.
    #[error("`{address}` can be reached by other machines; set a token for workers")]
    Exposed {
        /// The configured address.
        address: String,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on `{address}`")]
    Listen {
        /// The configured address.
        address: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The id is already registered.
    #[error("`{id}` is already registered at the hub")]
    Taken {
        /// The function or trigger type.
        id: String,
    },
    /// The hub URL is invalid.
    #[error("invalid hub URL `{url}`; expected one like ws://127.0.0.1:49134")]
    Url {
        /// The configured URL.
        url: String,
    },
    /// The hub cannot be reached.
    #[error("no hub at `{url}`")]
    Unreachable {
        /// The hub's URL.
        url: String,
        /// The cause.
        #[source]
        source: Box<tokio_tungstenite::tungstenite::Error>,
    },
}
