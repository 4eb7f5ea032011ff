//! Rules for the connections of a listener, and the rights of a connection under them.

use serde::Deserialize;
use serde_json::{Map, Value};

/// Functions that every connection may call; no SDK works without them.
const INFRASTRUCTURE: [&str; 10] = [
    "engine::channels::create",
    "engine::workers::register",
    "engine::log::info",
    "engine::log::warn",
    "engine::log::error",
    "engine::log::debug",
    "engine::log::trace",
    "engine::baggage::get",
    "engine::baggage::set",
    "engine::baggage::get_all",
];

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
            trigger_types: texts("allowed_trigger_types"),
            may_register_functions: flag("allow_function_registration", true),
            may_register_types: flag("allow_trigger_type_registration", false),
            registrations: texts("allowed_registrations").unwrap_or_default(),
            owner: name("owner").or(prefix).map(str::to_owned),
            prefix: prefix.map(str::to_owned),
            context: answer.get("context").cloned().unwrap_or_default(),
            rules: self.clone(),
        }
    }
}

impl Expose {
    fn allows(&self, id: &str, metadata: Option<&Value>) -> bool {
        match self {
            Self::Ids(text) => {
                let inner = text.strip_prefix("match(").and_then(|rest| rest.strip_suffix(')'));
                matches(inner.unwrap_or(text).trim_matches(['"', '\'']), id)
            }
            Self::Metadata { metadata: wanted } => metadata
                .is_some_and(|found| wanted.iter().all(|(name, value)| found.get(name) == Some(value))),
        }
    }
}

/// Rights of one connection.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Grant {
    /// The rules of its listener.
    pub(crate) rules: Rbac,
    pub(crate) allowed: Vec<String>,
    pub(crate) forbidden: Vec<String>,
    /// Allowed trigger types; `None` allows all.
    pub(crate) trigger_types: Option<Vec<String>>,
    pub(crate) may_register_functions: bool,
    pub(crate) may_register_types: bool,
    /// Ids that the connection may register even if they belong to another worker.
    pub(crate) registrations: Vec<String>,
    pub(crate) prefix: Option<String>,
    /// The name under which the connection owns its registrations, also after a reconnect.
    pub(crate) owner: Option<String>,
    pub(crate) context: Value,
}

impl Grant {
    /// Returns `true` if the connection may call the function; forbidden ids take precedence over allowed ones.
    pub(crate) fn may_call(&self, id: &str, metadata: Option<&Value>) -> bool {
        if self.forbids(id) {
            return false;
        }
        self.allowed.iter().any(|pattern| matches(pattern, id))
            || INFRASTRUCTURE.contains(&id)
            || self.rules.expose_functions.iter().any(|exposed| exposed.allows(id, metadata))
    }

    fn forbids(&self, id: &str) -> bool {
        self.forbidden.iter().any(|pattern| matches(pattern, id))
    }

    /// Returns `true` if the rules do not prevent the connection from registering this id, prefix included.
    pub(crate) fn may_register(&self, id: &str) -> bool {
        self.may_register_functions && !id.starts_with("engine::") && !self.forbids(id)
    }

    /// Returns `true` if the rules assign this id to the connection, prefix included.
    pub(crate) fn assigns(&self, id: &str) -> bool {
        self.prefix.is_some() || self.registrations.iter().any(|pattern| matches(pattern, id))
    }

    /// Returns `true` if the rules expose the function to the connection or use it, so that it belongs to another
    /// worker.
    pub(crate) fn exposes(&self, id: &str, metadata: Option<&Value>) -> bool {
        let hooks = [
            &self.rules.on_function_registration_function_id,
            &self.rules.on_trigger_registration_function_id,
            &self.rules.on_trigger_type_registration_function_id,
            &self.rules.middleware_function_id,
        ];
        self.may_call(id, metadata) || hooks.into_iter().flatten().any(|hook| hook == id)
    }

    pub(crate) fn may_subscribe(&self, trigger_type: &str) -> bool {
        self.trigger_types.as_ref().is_none_or(|types| types.iter().any(|id| matches(id, trigger_type)))
    }

    /// Returns the id under which a function of the connection is visible to others.
    pub(crate) fn registered_id(&self, id: &str) -> String {
        match &self.prefix {
            Some(prefix) => format!("{prefix}{id}"),
            None => id.to_owned(),
        }
    }

    pub(crate) fn is_infrastructure(id: &str) -> bool {
        INFRASTRUCTURE.contains(&id)
    }
}

/// Returns `true` if an id matches the pattern; `*` matches any text.
fn matches(pattern: &str, id: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == id };
    let Some(mut left) = id.strip_prefix(first) else { return false };
    let mut pieces: Vec<&str> = rest.split('*').collect();
    let last = pieces.pop().unwrap_or_default();
    for piece in pieces {
        match left.find(piece) {
            Some(at) => left = &left[at + piece.len()..],
            None => return false,
        }
    }
    left.ends_with(last)
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

    #[test]
    fn star_matches_any_text() {
        let cases = [
            ("a::b", "a::b", true),
            ("a::b", "a::bc", false),
            ("a::*", "a::", true),
            ("a::*", "b::a::", false),
            ("*::get", "x::get", true),
            ("*::get", "x::gets", false),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "a1c2b", false),
            ("a*a", "a", false),
            ("*", "", true),
        ];
        for (pattern, id, expected) in cases {
            assert_eq!(matches(pattern, id), expected, "{pattern} on {id}");
        }
    }
}
