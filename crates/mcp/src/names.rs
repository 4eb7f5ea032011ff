//! Tool names for the model: `server__tool`, unique, with characters that every provider accepts, and at most 64
//! characters long.
//!
//! A name depends only on the names of the server and the tool, so it is the same regardless of other servers. A plain
//! name is unambiguous: the server is the part before the first `__`. Every other name ends with a hash of both names,
//! and no plain name ends like that.

use sha2::{Digest as _, Sha256};

/// Maximum length of a name that providers accept.
const MAX: usize = 64;
const HASH: usize = 8;

/// Returns the exposed name of a server's tool.
pub(crate) fn exposed_name(server: &str, tool: &str) -> String {
    let joined = format!("{server}__{tool}");
    let is_plain = joined.len() <= MAX
        && joined.chars().all(is_portable)
        && joined.split_once("__") == Some((server, tool))
        && !ends_with_hash(&joined);
    if is_plain { joined } else { hashed_name(server, tool) }
}

fn is_portable(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

fn ends_with_hash(name: &str) -> bool {
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    name.rsplit_once('_').is_some_and(|(_, end)| end.len() == HASH && end.bytes().all(is_hex))
}

fn hashed_name(server: &str, tool: &str) -> String {
    let digest = Sha256::digest(format!("{server}\0{tool}"));
    let hash: String = digest.iter().take(HASH / 2).map(|byte| format!("{byte:02x}")).collect();
    let clean = |c: char| if is_portable(c) { c } else { '_' };
    let start: String = format!("{server}__{tool}").chars().map(clean).take(MAX - HASH - 1).collect();
    format!("{start}_{hash}")
}

#[cfg(test)]
mod tests {
    use super::{exposed_name, hashed_name};

    #[test]
    fn unportable_names_get_a_hash() {
        assert_eq!(exposed_name("files", "read-file"), "files__read-file");
        assert_eq!(exposed_name("a.b", "c"), format!("a_b__c_{}", &hashed_name("a.b", "c")[7..]));
        assert_ne!(exposed_name("a.b", "c"), exposed_name("a_b", "c"));
        assert_ne!(exposed_name("s", "ä"), exposed_name("s", "ö"));
    }

    #[test]
    fn ambiguous_names_stay_distinct() {
        assert_eq!(exposed_name("a", "b__c"), "a__b__c");
        assert_eq!(exposed_name("a__b", "c"), hashed_name("a__b", "c"));
        assert_eq!(exposed_name("a", "_b"), "a___b");
        assert_eq!(exposed_name("a_", "b"), hashed_name("a_", "b"));
        let spoofed = hashed_name("a__b", "c").split_once("__").map(|(_, tool)| tool.to_owned()).unwrap();
        assert_ne!(exposed_name("a", &spoofed), exposed_name("a__b", "c"));
    }

    #[test]
    fn long_names_stay_distinct_and_within_limit() {
        let long = "x".repeat(200);
        let names: Vec<_> =
            (0..100).map(|number| exposed_name("server", &format!("{long}{number}"))).collect();
        let unique: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!((unique.len(), names.iter().map(String::len).max()), (100, Some(64)));
    }
}
