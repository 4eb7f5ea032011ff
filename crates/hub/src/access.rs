//! Access control: admission of connections and their rights.

use std::net::{SocketAddr, TcpListener, ToSocketAddrs as _};

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::core::{Exposed, Grant, Hooks};
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

/// Rules for the connections of a listener. Unknown keys are rejected: a typo must not drop a rule.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rbac {
    /// The function called to authorize each connection. If it fails, the connection is rejected.
    pub auth_function_id: Option<String>,
    /// The functions that every connection may call.
    pub expose_functions: Vec<Expose>,
    /// Called before a trigger is registered.
    pub on_trigger_registration_function_id: Option<String>,
    /// Called before a trigger type is registered.
    pub on_trigger_type_registration_function_id: Option<String>,
    /// Called before a function is registered.
    pub on_function_registration_function_id: Option<String>,
    /// Receives every call in place of the called function.
    pub middleware_function_id: Option<String>,
}

/// Functions that every connection may call.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Expose {
    /// Ids, with `*` for any text, as `match("api::*")` or plain.
    Ids(String),
    /// Functions whose metadata contains all of these entries.
    Metadata {
        /// Metadata names and values.
        metadata: Map<String, Value>,
    },
}

impl Rbac {
    /// Returns the rights of a connection, given the auth function's `answer`.
    pub(crate) fn grant(&self, answer: &Value) -> Grant {
        let texts = |name: &str| -> Option<Vec<String>> {
            let list = answer.get(name)?.as_array()?;
            Some(list.iter().filter_map(Value::as_str).map(str::to_owned).collect())
        };
        let flag = |name: &str, default: bool| answer.get(name).and_then(Value::as_bool).unwrap_or(default);
        // Treat an empty name as absent: as a prefix it would match every id.
        let name = |name: &str| answer.get(name).and_then(Value::as_str).filter(|name| !name.is_empty());
        let prefix = name("function_registration_prefix");
        Grant {
            allowed: texts("allowed_functions").unwrap_or_default(),
            forbidden: texts("forbidden_functions").unwrap_or_default(),
            exposed: self.expose_functions.iter().map(Expose::rule).collect(),
            trigger_types: texts("allowed_trigger_types"),
            may_register_functions: flag("allow_function_registration", true),
            may_register_types: flag("allow_trigger_type_registration", false),
            registrations: texts("allowed_registrations").unwrap_or_default(),
            owner: name("owner").or(prefix).map(str::to_owned),
            prefix: prefix.map(str::to_owned),
            context: answer.get("context").cloned().unwrap_or_default(),
            hooks: Hooks {
                function: self.on_function_registration_function_id.clone(),
                trigger: self.on_trigger_registration_function_id.clone(),
                trigger_type: self.on_trigger_type_registration_function_id.clone(),
                middleware: self.middleware_function_id.clone(),
            },
        }
    }
}

impl Expose {
    fn rule(&self) -> Exposed {
        match self {
            Self::Ids(text) => {
                let inner = text.strip_prefix("match(").and_then(|rest| rest.strip_suffix(')'));
                Exposed::Matching(inner.unwrap_or(text).trim_matches(['"', '\'']).to_owned())
            }
            Self::Metadata { metadata } => Exposed::Marked(metadata.clone()),
        }
    }
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

    #[test]
    fn empty_prefix_and_owner_count_as_none() {
        let grant = |prefix: &str| {
            Rbac::default().grant(&serde_json::json!({ "function_registration_prefix": prefix, "owner": "" }))
        };
        assert_eq!((grant("").prefix, grant("").owner), (None, None));
        assert_eq!(grant("a::").owner.as_deref(), Some("a::"));
    }

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
