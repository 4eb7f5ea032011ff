//! What a connection may do, where the hub asks who it is.

use serde_json::Value;

/// What everybody may call: without these no SDK works.
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
    /// Ids, with `*` for any part.
    Matching(String),
    /// Functions whose metadata have all of this.
    Marked(serde_json::Map<String, Value>),
}

/// The functions that are asked before something is registered, and the one that has every call.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Hooks {
    pub(crate) function: Option<String>,
    pub(crate) trigger: Option<String>,
    pub(crate) trigger_type: Option<String>,
    pub(crate) middleware: Option<String>,
}

/// What one connection may do.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Grant {
    pub(crate) allowed: Vec<String>,
    pub(crate) forbidden: Vec<String>,
    pub(crate) exposed: Vec<Exposed>,
    /// `None` is every type.
    pub(crate) trigger_types: Option<Vec<String>>,
    pub(crate) may_register_functions: bool,
    pub(crate) may_register_types: bool,
    /// The functions that it may register although they may be another worker's.
    pub(crate) registrations: Vec<String>,
    pub(crate) prefix: Option<String>,
    /// The name under which the connection owns what it registers, also after it came back.
    pub(crate) owner: Option<String>,
    pub(crate) context: Value,
    pub(crate) hooks: Hooks,
}

impl Grant {
    /// Whether the connection may call the function; forbidden goes before allowed.
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

    /// Returns true if the rules do not exclude that the connection registers this id, its prefix included.
    pub(crate) fn may_register(&self, id: &str) -> bool {
        self.may_register_functions && !id.starts_with("engine::") && !self.forbids(id)
    }

    /// Returns true if the rules give the connection this id to register, its prefix included.
    pub(crate) fn gives(&self, id: &str) -> bool {
        self.prefix.is_some() || self.registrations.iter().any(|pattern| matches(pattern, id))
    }

    /// Returns true if the rules open the function to the connection or use it, so that it is another worker's.
    pub(crate) fn opens(&self, id: &str, metadata: Option<&Value>) -> bool {
        let Hooks { function, trigger, trigger_type, middleware } = &self.hooks;
        let mut used = [function, trigger, trigger_type, middleware].into_iter().flatten();
        self.may_call(id, metadata) || used.any(|hook| hook == id)
    }

    pub(crate) fn may_subscribe(&self, trigger_type: &str) -> bool {
        self.trigger_types.as_ref().is_none_or(|types| types.iter().any(|id| matches(id, trigger_type)))
    }

    /// The id under which a function of the connection is known to others.
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

/// Whether an id is as the pattern says; `*` stands for any text.
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
    fn a_star_stands_for_any_text() {
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
