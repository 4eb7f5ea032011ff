//! Access checks: `Host`, `Origin`, and token.
//!
//! A web page can reach a server on this machine by its name, or by another name that resolves to it. It can choose
//! neither its `Origin` nor a `Host` other than its own, so both are checked on every request.

use std::net::{IpAddr, SocketAddr};

use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri, header};
use sha2::{Digest as _, Sha256};

use super::is_local;

/// Secret that clients must send. Stored as a digest, which can be compared but not read.
#[derive(Clone)]
pub struct Token([u8; 32]);

/// Access rules.
#[derive(Clone)]
pub struct Access {
    token: Option<Token>,
    /// Whether only this machine can reach the server.
    local: bool,
    hosts: Vec<String>,
    origins: Vec<String>,
}

/// Access rules would be unsafe or invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// Other machines can reach the address, and no token is set.
    #[error(
        "`{0}` can be reached from other machines and needs a token; listen on 127.0.0.1, or omit `--no-token`"
    )]
    TokenNeeded(SocketAddr),
    /// The token is empty.
    #[error("the token is empty")]
    EmptyToken,
}

/// Reason for rejecting a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rejection {
    /// The request line carries a scheme or a host.
    AbsoluteUri,
    /// There are several `Host` headers; a proxy may have checked a different one than this server.
    RepeatedHost,
    Host,
    Origin,
    NoToken,
    WrongToken,
}

impl Token {
    /// Creates a token from a secret; surrounding whitespace is ignored.
    ///
    /// # Errors
    /// Returns an error if the secret is empty.
    pub fn new(secret: &str) -> Result<Self, AccessError> {
        let secret = secret.trim();
        if secret.is_empty() { Err(AccessError::EmptyToken) } else { Ok(Self(Sha256::digest(secret).into())) }
    }

    /// Compares in constant time.
    fn matches(&self, secret: &str) -> bool {
        let digest: [u8; 32] = Sha256::digest(secret.trim()).into();
        self.0.iter().zip(digest).fold(0, |differences, (ours, theirs)| differences | (ours ^ theirs)) == 0
    }
}

impl Access {
    /// Allows clients that can reach `address` and, if a token is set, send it.
    ///
    /// # Errors
    /// Returns an error if other machines can reach the address and no token is set.
    pub fn new(address: SocketAddr, token: Option<Token>) -> Result<Self, AccessError> {
        let local = is_local(&address);
        if !local && token.is_none() {
            return Err(AccessError::TokenNeeded(address));
        }
        Ok(Self { token, local, hosts: Vec::new(), origins: Vec::new() })
    }

    /// Also accepts these values of `Host`, with or without a port. On a non-loopback address, any others are rejected.
    #[must_use]
    pub fn with_hosts(mut self, hosts: Vec<String>) -> Self {
        self.hosts = hosts;
        self
    }

    /// Also accepts pages of these origins, such as `https://app.example.com`.
    #[must_use]
    pub fn with_origins(mut self, origins: Vec<String>) -> Self {
        self.origins = origins;
        self
    }

    /// Checks the source of a request.
    pub(super) fn check_source(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Rejection> {
        if uri.scheme().is_some() || uri.authority().is_some() {
            return Err(Rejection::AbsoluteUri);
        }
        if headers.get_all(header::HOST).iter().nth(1).is_some() {
            return Err(Rejection::RepeatedHost);
        }
        if !self.allows_host(headers) {
            return Err(Rejection::Host);
        }
        if !self.allows_origin(headers) {
            return Err(Rejection::Origin);
        }
        Ok(())
    }

    /// Checks the token.
    pub(super) fn check_token(&self, headers: &HeaderMap) -> Result<(), Rejection> {
        let Some(token) = &self.token else { return Ok(()) };
        let value = headers.get(header::AUTHORIZATION).ok_or(Rejection::NoToken)?;
        let value = value.to_str().map_err(|_| Rejection::WrongToken)?;
        let (scheme, secret) = value.split_once(' ').ok_or(Rejection::WrongToken)?;
        if scheme.eq_ignore_ascii_case("bearer") && token.matches(secret) {
            Ok(())
        } else {
            Err(Rejection::WrongToken)
        }
    }

    fn allows_host(&self, headers: &HeaderMap) -> bool {
        let Some(authority) = host(headers).and_then(|host| host.parse::<Authority>().ok()) else {
            return false;
        };
        let listed = self.hosts.iter().any(|allowed| {
            allowed.eq_ignore_ascii_case(authority.as_str()) || allowed.eq_ignore_ascii_case(authority.host())
        });
        // A token is required anyway, so checking the name would add nothing.
        listed || is_this_machine(authority.host()) || (!self.local && self.hosts.is_empty())
    }

    fn allows_origin(&self, headers: &HeaderMap) -> bool {
        let mut origins = headers.get_all(header::ORIGIN).iter().peekable();
        if origins.peek().is_none() {
            return true;
        }
        // Every user of this machine can serve pages from it, so only the server's own origin is trusted.
        let own = host(headers).map(|host| format!("http://{host}"));
        origins.all(|origin| {
            let Ok(origin) = origin.to_str() else { return false };
            self.origins.iter().chain(&own).any(|allowed| allowed.eq_ignore_ascii_case(origin))
        })
    }
}

/// Returns the value of `Host`.
fn host(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::HOST)?.to_str().ok()
}

fn is_this_machine(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::{Access, AccessError, Rejection, Token};
    use axum::http::{HeaderMap, HeaderValue, Uri, header};

    const LOCAL: &str = "127.0.0.1:8000";
    const OPEN: &str = "0.0.0.0:8000";

    fn access(address: &str, token: Option<&str>) -> Result<Access, AccessError> {
        Access::new(address.parse().unwrap(), token.map(|token| Token::new(token).unwrap()))
    }

    fn headers(fields: &[(header::HeaderName, &str)]) -> HeaderMap {
        let fields = fields.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap()));
        fields.collect()
    }

    fn source(access: &Access, host: &str, origin: Option<&str>) -> Result<(), Rejection> {
        let mut fields = vec![(header::HOST, host)];
        fields.extend(origin.map(|origin| (header::ORIGIN, origin)));
        access.check_source(&Uri::from_static("/mcp"), &headers(&fields))
    }

    #[test]
    fn non_loopback_address_needs_a_token() {
        let expected = AccessError::TokenNeeded(OPEN.parse().unwrap());
        assert_eq!(access(OPEN, None).err(), Some(expected));
        assert!(access(OPEN, Some("s3cret")).is_ok());
        assert!(access(LOCAL, None).is_ok());
        assert!(access("[::1]:0", None).is_ok());
        assert_eq!(Token::new(" \n").err(), Some(AccessError::EmptyToken));
    }

    #[test]
    fn only_local_host_names_are_accepted() {
        let access = access(LOCAL, None).unwrap();
        for host in ["127.0.0.1:8000", "localhost", "LOCALHOST:1", "[::1]:8000", "127.8.8.8"] {
            assert_eq!(source(&access, host, None), Ok(()), "{host}");
        }
        for host in ["evil.example.com", "localhost.evil.example.com", "10.0.0.1:8000", ""] {
            assert_eq!(source(&access, host, None), Err(Rejection::Host), "{host}");
        }
        let named = access.with_hosts(vec!["box.example.com".to_owned()]);
        assert_eq!(source(&named, "box.example.com:8000", None), Ok(()));
    }

    #[test]
    fn only_own_and_allowed_origins_are_accepted() {
        let access = access(LOCAL, None).unwrap();
        for (host, origin) in [
            (LOCAL, "http://127.0.0.1:8000"),
            ("localhost:8000", "http://localhost:8000"),
            ("[::1]:8000", "http://[::1]:8000"),
        ] {
            assert_eq!(source(&access, host, Some(origin)), Ok(()), "{origin}");
        }
        for origin in [
            "http://localhost:3000",
            "http://127.0.0.1",
            "http://127.0.0.2:8000",
            "https://127.0.0.1:8000",
            "http://evil.example.com",
            "http://localhost.evil.example.com",
            "null",
            "file://",
        ] {
            assert_eq!(source(&access, LOCAL, Some(origin)), Err(Rejection::Origin), "{origin}");
        }
        let named = access.with_origins(vec!["https://app.example.com".to_owned()]);
        assert_eq!(source(&named, LOCAL, Some("https://app.example.com")), Ok(()));
        assert_eq!(source(&named, LOCAL, Some("https://app.example.com:444")), Err(Rejection::Origin));
    }

    #[test]
    fn absolute_uris_and_second_hosts_are_rejected() {
        let access = access(LOCAL, None).unwrap();
        let absolute = Uri::from_static("http://127.0.0.1:8000/mcp");
        assert_eq!(
            access.check_source(&absolute, &headers(&[(header::HOST, LOCAL)])),
            Err(Rejection::AbsoluteUri)
        );
        let mut twice = headers(&[(header::HOST, LOCAL)]);
        twice.append(header::HOST, HeaderValue::from_static(LOCAL));
        assert_eq!(access.check_source(&Uri::from_static("/mcp"), &twice), Err(Rejection::RepeatedHost));
    }

    #[test]
    fn token_must_match_exactly() {
        let access = access(OPEN, Some("s3cret\n")).unwrap();
        let check = |value: &str| access.check_token(&headers(&[(header::AUTHORIZATION, value)]));
        assert_eq!(check("Bearer s3cret"), Ok(()));
        assert_eq!(check("bearer s3cret"), Ok(()));
        for wrong in ["Bearer s3cre", "Bearer s3crets", "Basic s3cret", "s3cret", "Bearer "] {
            assert_eq!(check(wrong), Err(Rejection::WrongToken), "{wrong}");
        }
        assert_eq!(access.check_token(&HeaderMap::new()), Err(Rejection::NoToken));
    }
}
