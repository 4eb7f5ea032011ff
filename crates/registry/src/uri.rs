//! URIs of registered content: `iii://skills`, `iii://{skill}`, and `iii://{skill}/{function}`.
//!
//! URIs are not decoded, trimmed, or normalized; they are compared byte for byte.

use meerkat_core::excerpt;

/// URI of the index.
pub const INDEX: &str = "iii://skills";
const SCHEME: &str = "iii://";

/// Prefixes of the bus's internal functions. Reading a document never calls them.
const RESERVED: [&str; 10] = [
    "engine::",
    "state::",
    "stream::",
    "iii.",
    "iii::",
    "mcp::",
    "a2a::",
    "skills::",
    "prompts::",
    "configuration::",
];

/// Resource named by a URI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource<'a> {
    /// The index of all skills.
    Index,
    /// A skill, by an id that may be invalid.
    Skill(&'a str),
    /// A section of a skill, returned by a function.
    Section {
        /// The skill, which need not be registered.
        skill: &'a str,
        /// The function.
        function: &'a str,
    },
}

/// Error parsing a URI, with the start of the URI.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UriError {
    /// The scheme is not `iii`.
    #[error("Resource URI must start with iii://: {0}")]
    Scheme(String),
    /// The part after the scheme is empty.
    #[error("Empty resource id: {0}")]
    Empty(String),
    /// The skill id is missing.
    #[error("Empty skill id in URI: {0}")]
    NoSkill(String),
    /// The function id is missing.
    #[error("Empty function id in URI: {0}")]
    NoFunction(String),
    /// The URI has too many path segments.
    #[error("Resource URI may not have more than one path segment after the skill id: {0}")]
    TooDeep(String),
}

/// Parses a URI into the resource it names.
///
/// # Errors
/// Returns an error for the first rule that the URI violates.
pub fn parse(uri: &str) -> Result<Resource<'_>, UriError> {
    let rest = uri.strip_prefix(SCHEME).ok_or_else(|| UriError::Scheme(excerpt(uri)))?;
    if rest.is_empty() {
        return Err(UriError::Empty(excerpt(uri)));
    }
    if uri == INDEX {
        return Ok(Resource::Index);
    }
    let Some((skill, function)) = rest.split_once('/') else {
        return Ok(Resource::Skill(rest));
    };
    if skill.is_empty() {
        return Err(UriError::NoSkill(excerpt(uri)));
    }
    if function.is_empty() {
        return Err(UriError::NoFunction(excerpt(uri)));
    }
    if function.contains('/') {
        return Err(UriError::TooDeep(excerpt(uri)));
    }
    Ok(Resource::Section { skill, function })
}

/// Returns `true` if a function is internal to the bus.
#[must_use]
pub fn is_reserved(function: &str) -> bool {
    RESERVED.iter().any(|prefix| function.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn uris_name_the_index_skills_and_sections() {
        for (uri, expected) in [
            ("iii://skills", Resource::Index),
            ("iii://brain", Resource::Skill("brain")),
            ("iii://Bad Id?x#y", Resource::Skill("Bad Id?x#y")),
            ("iii://skills/x::y", Resource::Section { skill: "skills", function: "x::y" }),
            ("iii://a/%2F", Resource::Section { skill: "a", function: "%2F" }),
        ] {
            assert_eq!(parse(uri), Ok(expected), "{uri}");
        }
    }

    #[test]
    fn first_violated_rule_is_reported() {
        for (uri, expected) in [
            ("", "Resource URI must start with iii://: "),
            ("III://skills", "Resource URI must start with iii://: III://skills"),
            (" iii://skills", "Resource URI must start with iii://:  iii://skills"),
            ("iii://", "Empty resource id: iii://"),
            ("iii:///x", "Empty skill id in URI: iii:///x"),
            ("iii:///", "Empty skill id in URI: iii:///"),
            ("iii://a/", "Empty function id in URI: iii://a/"),
            (
                "iii://a/b/c",
                "Resource URI may not have more than one path segment after the skill id: iii://a/b/c",
            ),
            (
                "iii://a/b/",
                "Resource URI may not have more than one path segment after the skill id: iii://a/b/",
            ),
        ] {
            assert_eq!(parse(uri).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn errors_quote_only_the_start() {
        let long = "\u{1b}/".repeat(100_000);
        for uri in [long.clone(), format!("iii:///{long}"), format!("iii://a/b/{long}")] {
            let error = parse(&uri).unwrap_err().to_string();
            assert!(error.len() < 900 && !error.contains('\u{1b}'), "{error}");
        }
    }

    #[test]
    fn bus_functions_are_reserved() {
        for prefix in RESERVED {
            assert!(is_reserved(&format!("{prefix}x")), "{prefix}");
        }
        for free in ["demo::guide", "iii", "iiix::a", "skills:x", "Skills::x", "my-state::get"] {
            assert!(!is_reserved(free), "{free}");
        }
    }

    proptest! {
        #[test]
        fn uri_round_trips_through_its_parts(uri in "(iii://)?[a-z:/%# ]{0,12}") {
            match parse(&uri) {
                Ok(Resource::Index) => prop_assert_eq!(&uri, INDEX),
                Ok(Resource::Skill(skill)) => {
                    prop_assert!(!skill.is_empty() && !skill.contains('/'));
                    prop_assert_eq!(&uri, &format!("{SCHEME}{skill}"));
                }
                Ok(Resource::Section { skill, function }) => {
                    prop_assert!(!skill.is_empty() && !function.is_empty());
                    prop_assert!(!skill.contains('/') && !function.contains('/'));
                    prop_assert_eq!(&uri, &format!("{SCHEME}{skill}/{function}"));
                }
                Err(error) => prop_assert!(error.to_string().ends_with(&uri)),
            }
        }
    }
}
