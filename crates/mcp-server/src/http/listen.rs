//! HTTP server of a process: listens, announces its address, and serves until a signal.

use std::error::Error as _;
use std::net::SocketAddr;
use std::path::PathBuf;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{Access, AccessError, ClientToken, Limits, Token};
use crate::server::Server;
use crate::signals::shutdown_signal;

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

impl Server {
    /// Serves clients over HTTP until the process receives a shutdown signal. Calls `announce` with the bound address.
    ///
    /// # Errors
    /// Returns an error if the address cannot be bound, or if the server would be open to other machines.
    pub async fn listen(&self, listen: Listen, announce: impl FnOnce(SocketAddr)) -> Result<(), ListenError> {
        super::raise_file_limit();
        let token = listen.token.secret().map(Token::new).transpose()?;
        let bound = TcpListener::bind(&listen.address).await;
        let bound = bound.and_then(|listener| listener.local_addr().map(|address| (listener, address)));
        let (listener, address) =
            bound.map_err(|source| ListenError::Bind { address: listen.address.clone(), source })?;
        let access = Access::new(address, token)?.with_hosts(listen.hosts).with_origins(listen.origins);
        let terminated = shutdown_signal();
        announce(address);
        let closing = CancellationToken::new();
        let serving = self.serve_http(listener, access, Limits::default(), closing.clone());
        tokio::pin!(serving);
        tokio::select! {
            () = &mut serving => return Ok(()),
            () = terminated => closing.cancel(),
        }
        serving.await;
        Ok(())
    }
}
