//! Access control: admission of connections and their rights.

use std::net::{SocketAddr, TcpListener, ToSocketAddrs as _};

use crate::core::Rbac;
use crate::error::HubError;

/// Requirements that a listener imposes on connections.
///
/// Browser pages are admitted only if their origin is listed, because a browser on this machine runs pages from any
/// site.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// The bearer token that a worker must present; if `None`, every connection is admitted.
    pub token: Option<String>,
    /// If true, admits processes on this machine that run as the hub's user without the token, where the system can
    /// identify the peer. Many SDKs cannot send a token.
    pub admit_same_user: bool,
    /// The origins of pages that may connect, such as `http://localhost:5173`.
    pub origins: Vec<String>,
    /// Rights of each connection; if `None`, every connection may do everything.
    pub rbac: Option<Rbac>,
}

/// Binds to an address. One that other machines can reach requires a token.
pub fn bind(address: &str, access: &Access) -> Result<tokio::net::TcpListener, HubError> {
    let unreadable = || HubError::Address { address: address.to_owned() };
    let found: Vec<SocketAddr> = address.to_socket_addrs().map_err(|_| unreadable())?.collect();
    if found.is_empty() {
        return Err(unreadable());
    }
    if access.token.is_none() && !found.iter().all(|found| found.ip().is_loopback()) {
        return Err(HubError::Exposed { address: address.to_owned() });
    }
    let listen = |found: &[SocketAddr]| {
        let listener = TcpListener::bind(found)?;
        listener.set_nonblocking(true)?;
        tokio::net::TcpListener::from_std(listener)
    };
    listen(&found).map_err(|source| HubError::Listen { address: address.to_owned(), source })
}

/// Returns `true` if two secrets are equal; takes the same time however similar they are.
pub(crate) fn same_secret(found: &str, wanted: &str) -> bool {
    let differences = found.bytes().zip(wanted.bytes()).fold(0, |sum, (one, other)| sum | (one ^ other));
    found.len() == wanted.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn non_loopback_address_requires_a_token() {
        let open = Access::default();
        assert!(matches!(bind("0.0.0.0:0", &open), Err(HubError::Exposed { .. })));
        assert!(matches!(bind("nonsense", &open), Err(HubError::Address { .. })));
        assert!(bind("127.0.0.1:0", &open).is_ok());
        let guarded = Access { token: Some("secret".to_owned()), ..Access::default() };
        assert!(bind("0.0.0.0:0", &guarded).is_ok());
    }
}
