//! The names tools have for the model: `server__tool`, unique, of characters every provider takes, and never
//! longer than 64.
//!
//! A name depends on nothing but the server's and the tool's, so it stays the same whoever else comes or goes. A plain
//! name can be read in one way only: the server is what stands before the first `__`. Every other one ends with a hash
//! of what it stands for, and no plain one ends like that.

use sha2::{Digest as _, Sha256};

/// The longest name providers take.
const MAX: usize = 64;
const HASH: usize = 8;

/// Returns the name of a server's tool.
pub(crate) fn exposed_name(server: &str, tool: &str) -> String {
    let joined = format!("{server}__{tool}");
    let is_plain = joined.len() <= MAX
        && joined.chars().all(is_taken_by_all)
        && joined.split_once("__") == Some((server, tool))
        && !ends_with_hash(&joined);
    if is_plain { joined } else { hashed_name(server, tool) }
}

fn is_taken_by_all(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

fn ends_with_hash(name: &str) -> bool {
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    name.rsplit_once('_').is_some_and(|(_, end)| end.len() == HASH && end.bytes().all(is_hex))
}

fn hashed_name(server: &str, tool: &str) -> String {
    let digest = Sha256::digest(format!("{server}\0{tool}"));
    let hash: String = digest.iter().take(HASH / 2).map(|byte| format!("{byte:02x}")).collect();
    let clean = |c: char| if is_taken_by_all(c) { c } else { '_' };
    let start: String = format!("{server}__{tool}").chars().map(clean).take(MAX - HASH - 1).collect();
    format!("{start}_{hash}")
}

#[cfg(test)]
mod tests {
    use super::{exposed_name, hashed_name};

    #[test]
    fn a_name_that_fits_stays_and_any_other_gets_a_hash() {
        assert_eq!(exposed_name("files", "read-file"), "files__read-file");
        assert_eq!(exposed_name("a.b", "c"), format!("a_b__c_{}", &hashed_name("a.b", "c")[7..]));
        assert_ne!(exposed_name("a.b", "c"), exposed_name("a_b", "c"));
        assert_ne!(exposed_name("s", "ä"), exposed_name("s", "ö"));
    }

    #[test]
    fn names_that_could_be_read_in_two_ways_stay_apart() {
        assert_eq!(exposed_name("a", "b__c"), "a__b__c");
        assert_eq!(exposed_name("a__b", "c"), hashed_name("a__b", "c"));
        assert_eq!(exposed_name("a", "_b"), "a___b");
        assert_eq!(exposed_name("a_", "b"), hashed_name("a_", "b"));
        let posing = hashed_name("a__b", "c").split_once("__").map(|(_, tool)| tool.to_owned()).unwrap();
        assert_ne!(exposed_name("a", &posing), exposed_name("a__b", "c"));
    }

    #[test]
    fn long_names_stay_apart_and_within_bounds() {
        let long = "x".repeat(200);
        let names: Vec<_> =
            (0..100).map(|number| exposed_name("server", &format!("{long}{number}"))).collect();
        let unique: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!((unique.len(), names.iter().map(String::len).max()), (100, Some(64)));
    }
}
