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
        shown_url(&self.base_url)
    }
}

/// Returns a base URL as it may be shown: without a name and a password that may stand in it.
#[must_use]
pub fn shown_url(base_url: &str) -> String {
    let (scheme, rest) = base_url.split_once("://").unwrap_or(("http", base_url));
    let host_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let host_start = rest[..host_end].rfind('@').map_or(0, |at| at + 1);
    let path = rest[host_start..].split(['?', '#']).next().unwrap_or_default();
    format!("{scheme}://{path}")
}

/// Says what is wrong with a base URL, if anything is.
#[must_use]
pub fn base_url_fault(base_url: &str) -> Option<&'static str> {
    let Some((scheme, rest)) = base_url.split_once("://") else {
        return Some("must be an address such as `https://host/path`");
    };
    if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        return Some("must begin with `http://` or `https://`");
    }
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    if authority.contains('@') {
        return Some("must not hold a name or a password; a token has a place of its own");
    }
    if rest.contains(['?', '#']) {
        return Some("must not have a `?` or a `#`: what is asked for is added at its end");
    }
    let odd = |c: char| c.is_whitespace() || c.is_control() || c == '\\';
    if rest.contains(odd) || path.split('/').any(|part| part == ".." || part == ".") {
        return Some("must not have blanks, backslashes or dots for directories");
    }
    if !is_authority(authority) {
        return Some("must name a host, and a port only as a number");
    }
    None
}

/// Says whether this is a host, with or without a port.
fn is_authority(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((inner, after)) if inner.parse::<std::net::Ipv6Addr>().is_ok() => ("v6", after),
        Some(_) => return false,
        None => text.find(':').map_or((text, ""), |at| text.split_at(at)),
    };
    let named = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
    let port_fits = port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
    !host.is_empty() && host.chars().all(named) && port_fits
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

    #[test]
    fn a_base_url_is_an_address_and_nothing_more() {
        let good = [
            "https://api.example.com",
            "http://127.0.0.1:8080/v1/",
            "HTTPS://proxy/a@b",
            "http://[::1]:9",
            "http://bücher.example",
        ];
        for url in good {
            assert_eq!(base_url_fault(url), None, "{url}");
        }
        let bad = [
            ("api.example.com", "must be an address such as `https://host/path`"),
            ("ftp://host", "must begin with `http://` or `https://`"),
            ("https://me:word@host", "must not hold a name or a password; a token has a place of its own"),
            ("https://host/?a=b", "must not have a `?` or a `#`: what is asked for is added at its end"),
            ("https://host#x", "must not have a `?` or a `#`: what is asked for is added at its end"),
            ("https://host/a b", "must not have blanks, backslashes or dots for directories"),
            ("https://host/../x", "must not have blanks, backslashes or dots for directories"),
            ("https://", "must name a host, and a port only as a number"),
            ("https://host:http", "must name a host, and a port only as a number"),
            ("https://[::1", "must name a host, and a port only as a number"),
        ];
        for (url, fault) in bad {
            assert_eq!(base_url_fault(url), Some(fault), "{url}");
        }
    }
}
