//! Rights of an authorized connection.

use serde_json::Value;

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

/// The functions that are open to every connection of a listener.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Exposed {
    /// Ids, with `*` as a wildcard.
    Matching(String),
    /// Functions whose metadata contains all of these entries.
    Marked(serde_json::Map<String, Value>),
}

/// The functions that are called before a registration, and the middleware that receives every call.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Hooks {
    pub(crate) function: Option<String>,
    pub(crate) trigger: Option<String>,
    pub(crate) trigger_type: Option<String>,
    pub(crate) middleware: Option<String>,
}

/// Rights of one connection.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Grant {
    pub(crate) allowed: Vec<String>,
    pub(crate) forbidden: Vec<String>,
    pub(crate) exposed: Vec<Exposed>,
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
    pub(crate) hooks: Hooks,
}

impl Grant {
    /// Returns `true` if the connection may call the function; forbidden ids take precedence over allowed ones.
    pub(crate) fn may_call(&self, id: &str, metadata: Option<&Value>) -> bool {
        if self.forbids(id) {
            return false;
        }
        self.allowed.iter().any(|pattern| matches(pattern, id))
            || INFRASTRUCTURE.contains(&id)
            || self.exposed.iter().any(|exposed| match exposed {
                Exposed::Matching(pattern) => matches(pattern, id),
                Exposed::Marked(wanted) => metadata
                    .is_some_and(|found| wanted.iter().all(|(name, value)| found.get(name) == Some(value))),
            })
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
        let Hooks { function, trigger, trigger_type, middleware } = &self.hooks;
        let mut used = [function, trigger, trigger_type, middleware].into_iter().flatten();
        self.may_call(id, metadata) || used.any(|hook| hook == id)
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
    use super::matches;

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
