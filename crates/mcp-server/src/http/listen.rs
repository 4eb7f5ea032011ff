//! Serving HTTP as a program does: listen, say where, and go on until a signal.

use std::error::Error as _;
use std::net::SocketAddr;
use std::path::PathBuf;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{Access, AccessError, ClientToken, Limits, Token};
use crate::server::Server;
use crate::signals::terminated;

/// Where to listen, and who may come in.
#[derive(Debug, Clone)]
pub struct Listen {
    /// The address, such as `127.0.0.1:8000`; port 0 takes a free one.
    pub address: String,
    /// The bearer token that clients must show.
    pub token: ClientToken,
    /// Values of `Host` that are accepted too.
    pub hosts: Vec<String>,
    /// Origins of pages that are accepted too.
    pub origins: Vec<String>,
}

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address cannot be taken.
    #[error("cannot listen on `{address}`: {source}; choose another address, or port 0 for a free one")]
    Bind {
        /// The address as it was given.
        address: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// The file with the token cannot be read.
    #[error("cannot read the token in `{}`: {source}", path.display())]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The realm's token cannot be read or created.
    #[error("{}", with_cause(.0))]
    RealmToken(#[from] meerkat::token::TokenError),
    /// Strangers could come in.
    #[error(transparent)]
    Access(#[from] AccessError),
}

/// Writes an error and its cause on one line.
fn with_cause(error: &meerkat::token::TokenError) -> String {
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("{error}{cause}")
}

impl Server {
    /// Serves clients over HTTP until the process is asked to end; `announce` is told where.
    ///
    /// # Errors
    /// Fails when the address cannot be taken, or when strangers could come in.
    pub async fn listen(&self, listen: Listen, announce: impl FnOnce(SocketAddr)) -> Result<(), ListenError> {
        super::raise_file_limit();
        let token = listen.token.secret().map(Token::new).transpose()?;
        let bound = TcpListener::bind(&listen.address).await;
        let bound = bound.and_then(|listener| listener.local_addr().map(|address| (listener, address)));
        let (listener, address) =
            bound.map_err(|source| ListenError::Bind { address: listen.address.clone(), source })?;
        let access = Access::new(address, token)?.with_hosts(listen.hosts).with_origins(listen.origins);
        let terminated = terminated();
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
