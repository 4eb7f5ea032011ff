//! Options of an HTTP server, and the reasons why it cannot start.

use std::error::Error as _;
use std::path::PathBuf;

use super::{AccessError, ClientToken};

/// Address to listen on, and access options.
#[derive(Debug, Clone)]
pub struct Listen {
    /// Address, such as `127.0.0.1:8000`; port 0 picks a free port.
    pub address: String,
    /// Bearer token that clients must send.
    pub token: ClientToken,
    /// Additional values of `Host` to accept.
    pub hosts: Vec<String>,
    /// Additional browser origins to accept.
    pub origins: Vec<String>,
}

/// Reason why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address cannot be bound.
    #[error("cannot listen on `{address}`: {source}; choose another address, or port 0 for a free one")]
    Bind {
        /// Address from the options.
        address: String,
        /// System error.
        source: std::io::Error,
    },
    /// The system allows too few open files.
    #[error(
        "the system allows {files} open files, but a server needs at least {needed}; raise the limit (`ulimit -n`)"
    )]
    Files {
        /// Number of files that the system allows.
        files: u64,
        /// Number of files that the server needs.
        needed: u64,
    },
    /// The token file cannot be read.
    #[error("cannot read the token in `{}`: {source}", path.display())]
    TokenFile {
        /// Path of the file.
        path: PathBuf,
        /// System error.
        source: std::io::Error,
    },
    /// The realm's token cannot be read or created.
    #[error("{}", with_cause(.0))]
    RealmToken(#[from] meerkat::token::TokenError),
    /// The server would be open to other machines.
    #[error(transparent)]
    Access(#[from] AccessError),
}

/// Formats an error and its cause on one line.
fn with_cause(error: &meerkat::token::TokenError) -> String {
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("{error}{cause}")
}
