//! Where a provider is, and the key to it.

use std::fmt;

/// Where a provider is and how to get in.
#[derive(Clone)]
pub struct Endpoint {
    /// The base URL, without a trailing slash.
    pub base_url: String,
    /// The user's key; empty where none is needed.
    pub key: Secret,
}

impl Endpoint {
    /// Returns the base URL as it may be shown: without a name and a password that may stand in it.
    #[must_use]
    pub fn shown(&self) -> String {
        let (scheme, rest) = self.base_url.split_once("://").unwrap_or(("http", &self.base_url));
        let host_end = rest.find('/').unwrap_or(rest.len());
        let host_start = rest[..host_end].rfind('@').map_or(0, |at| at + 1);
        let path = rest[host_start..].split(['?', '#']).next().unwrap_or_default();
        format!("{scheme}://{path}")
    }
}

/// A text that is never shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text, to be sent to its owner only.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("base_url", &self.shown()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_secret_in_an_address_is_not_shown() {
        let shown = |base_url: &str| {
            let endpoint = Endpoint { base_url: base_url.to_owned(), key: Secret::new("sk-1") };
            assert!(!format!("{endpoint:?}").contains("sk-1"));
            endpoint.shown()
        };
        assert_eq!(shown("https://me:word@proxy.example:8080/v1"), "https://proxy.example:8080/v1");
        assert_eq!(shown("http://127.0.0.1:8001"), "http://127.0.0.1:8001");
        assert_eq!(shown("https://h/a@b?token=x"), "https://h/a@b");
    }
}
