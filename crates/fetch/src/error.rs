//! Errors of requests.

/// Reason a request failed; the message continues a sentence about the server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The server is unreachable, or the connection was lost.
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    /// The server returned an error status.
    #[error("it returned HTTP {0}")]
    Status(u16),
    /// The response exceeds the size limit.
    #[error("its response is longer than {0} bytes")]
    TooLong(usize),
    /// HTTP is not compiled in.
    #[error("this build has no HTTP client")]
    NotCompiled,
}
