//! Checks of the URLs that a login may use: `https`, or `http` on this machine.
//!
//! A server names its own login endpoints, so it could name anything: a `file:` URL for the browser to open, or a URL
//! where tokens are sent unencrypted.

use rmcp::transport::auth::{AuthError, AuthorizationMetadata};
use url::{Host, Url};

/// Checks every endpoint that a login would open.
pub(super) fn check_metadata(metadata: &AuthorizationMetadata) -> Result<(), AuthError> {
    check("authorization endpoint", &metadata.authorization_endpoint)?;
    check("token endpoint", &metadata.token_endpoint)?;
    if let Some(url) = &metadata.registration_endpoint {
        check("registration endpoint", url)?;
    }
    if let Some(url) = &metadata.issuer {
        check("issuer", url)?;
    }
    Ok(())
}

/// Checks one URL; `what` names it in the error.
pub(super) fn check(what: &str, url: &str) -> Result<(), AuthError> {
    if Url::parse(url).is_ok_and(|url| is_secure(&url)) {
        return Ok(());
    }
    Err(AuthError::MetadataError(format!(
        "the {what} `{url}` is not secure; a login needs `https`, or `http` on this machine"
    )))
}

fn is_secure(url: &Url) -> bool {
    match url.scheme() {
        "https" => url.host().is_some(),
        "http" => is_on_this_machine(url),
        _ => false,
    }
}

/// Whether the URL itself says that its host is this machine.
pub(super) fn is_on_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use rmcp::transport::auth::AuthorizationMetadata;

    use super::{check, check_metadata};

    #[test]
    fn only_https_and_loopback_http_are_secure() {
        let secure = [
            "https://login.example/authorize",
            "http://127.0.0.1:4000/token",
            "http://[::1]/token",
            "http://localhost:1/register",
        ];
        for url in secure {
            assert!(check("token endpoint", url).is_ok(), "{url}");
        }
        let insecure = [
            "http://login.example/token",
            "http://10.0.0.1/token",
            "http://localhost.evil.example/token",
            "http://127.0.0.1@evil.example/token",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "vscode://install",
            "//login.example/token",
            "",
        ];
        for url in insecure {
            let error = check("token endpoint", url).unwrap_err().to_string();
            assert!(error.contains(&format!("the token endpoint `{url}` is not secure")), "{error}");
        }
    }

    #[test]
    fn every_endpoint_is_checked() {
        let metadata = |change: fn(&mut AuthorizationMetadata)| {
            let mut metadata = AuthorizationMetadata::default();
            metadata.authorization_endpoint = "https://login.example/authorize".to_owned();
            metadata.token_endpoint = "https://login.example/token".to_owned();
            change(&mut metadata);
            metadata
        };
        assert!(check_metadata(&metadata(|_| {})).is_ok());
        let insecure: [fn(&mut AuthorizationMetadata); 4] = [
            |metadata| metadata.authorization_endpoint = "file:///bin/sh".to_owned(),
            |metadata| metadata.token_endpoint = "http://login.example/token".to_owned(),
            |metadata| metadata.registration_endpoint = Some("http://login.example/register".to_owned()),
            |metadata| metadata.issuer = Some("http://login.example".to_owned()),
        ];
        for change in insecure {
            assert!(check_metadata(&metadata(change)).is_err());
        }
    }
}
