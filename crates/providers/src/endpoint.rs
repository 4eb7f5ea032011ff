//! URL and API key of a provider.

use std::fmt;

/// URL and credentials of a provider.
#[derive(Clone)]
pub struct Endpoint {
    /// Base URL, without a trailing slash.
    pub base_url: String,
    /// The user's key; empty if none is needed.
    pub key: Secret,
}

impl Endpoint {
    /// Returns the base URL for display, without a user name and password.
    #[must_use]
    pub fn redacted_base_url(&self) -> String {
        redacted_url(&self.base_url)
    }
}

/// Returns a base URL for display, without a user name and password.
#[must_use]
pub fn redacted_url(base_url: &str) -> String {
    let (scheme, rest) = base_url.split_once("://").unwrap_or(("http", base_url));
    let host_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let host_start = rest[..host_end].rfind('@').map_or(0, |at| at + 1);
    let path = rest[host_start..].split(['?', '#']).next().unwrap_or_default();
    format!("{scheme}://{path}")
}

/// Returns what is wrong with a base URL, if anything.
#[must_use]
pub fn base_url_error(base_url: &str) -> Option<&'static str> {
    let Some((scheme, rest)) = base_url.split_once("://") else {
        return Some("must be a URL such as `https://host/path`");
    };
    if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        return Some("must start with `http://` or `https://`");
    }
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    if authority.contains('@') {
        return Some("must not contain a user name or password; configure the token separately");
    }
    if rest.contains(['?', '#']) {
        return Some("must not contain `?` or `#`: request paths are appended to it");
    }
    let is_invalid = |c: char| c.is_whitespace() || c.is_control() || c == '\\';
    if rest.contains(is_invalid) || path.split('/').any(|part| part == ".." || part == ".") {
        return Some("must not contain whitespace, backslashes, or `.` and `..` segments");
    }
    if !is_authority(authority) {
        return Some("must have a host, and a numeric port if any");
    }
    None
}

/// Returns `true` if the text is a host, with or without a port.
fn is_authority(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((inner, after)) if inner.parse::<std::net::Ipv6Addr>().is_ok() => ("v6", after),
        Some(_) => return false,
        None => text.find(':').map_or((text, ""), |at| text.split_at(at)),
    };
    let is_host_char = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
    let port_fits = port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
    !host.is_empty() && host.chars().all(is_host_char) && port_fits
}

/// A text that is never displayed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text, to be sent to its provider only.
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
        f.debug_struct("Endpoint").field("base_url", &self.redacted_base_url()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_in_url_are_not_shown() {
        let redacted = |base_url: &str| {
            let endpoint = Endpoint { base_url: base_url.to_owned(), key: Secret::new("sk-1") };
            assert!(!format!("{endpoint:?}").contains("sk-1"));
            endpoint.redacted_base_url()
        };
        assert_eq!(redacted("https://me:word@proxy.example:8080/v1"), "https://proxy.example:8080/v1");
        assert_eq!(redacted("http://127.0.0.1:8001"), "http://127.0.0.1:8001");
        assert_eq!(redacted("https://h/a@b?token=x"), "https://h/a@b");
    }

    #[test]
    fn invalid_base_urls_are_rejected() {
        let good = [
            "https://api.example.com",
            "http://127.0.0.1:8080/v1/",
            "HTTPS://proxy/a@b",
            "http://[::1]:9",
            "http://bücher.example",
        ];
        for url in good {
            assert_eq!(base_url_error(url), None, "{url}");
        }
        let bad = [
            ("api.example.com", "must be a URL such as `https://host/path`"),
            ("ftp://host", "must start with `http://` or `https://`"),
            (
                "https://me:word@host",
                "must not contain a user name or password; configure the token separately",
            ),
            ("https://host/?a=b", "must not contain `?` or `#`: request paths are appended to it"),
            ("https://host#x", "must not contain `?` or `#`: request paths are appended to it"),
            ("https://host/a b", "must not contain whitespace, backslashes, or `.` and `..` segments"),
            ("https://host/../x", "must not contain whitespace, backslashes, or `.` and `..` segments"),
            ("https://", "must have a host, and a numeric port if any"),
            ("https://host:http", "must have a host, and a numeric port if any"),
            ("https://[::1", "must have a host, and a numeric port if any"),
        ];
        for (url, error) in bad {
            assert_eq!(base_url_error(url), Some(error), "{url}");
        }
    }
}
