//! The names tools have for the model: `server__tool`, unique, of characters every provider takes, and never
//! longer than 64.
//!
//! A name that had to be changed ends with a hash of what it stands for, so it is always the same one and never
//! another tool's.

use sha2::{Digest as _, Sha256};

/// The longest name providers take.
const MAX: usize = 64;
const HASH: usize = 8;

/// Returns the name of a server's tool.
pub(crate) fn exposed_name(server: &str, tool: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let joined = format!("{server}__{tool}");
    if joined.len() <= MAX && joined.chars().all(fits) { joined } else { hashed_name(server, tool) }
}

/// Returns the name with a hash, for a tool whose plain name is taken.
pub(crate) fn hashed_name(server: &str, tool: &str) -> String {
    let digest = Sha256::digest(format!("{server}\0{tool}"));
    let hash: String = digest.iter().take(HASH / 2).map(|byte| format!("{byte:02x}")).collect();
    let clean = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
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
    fn long_names_stay_apart_and_within_bounds() {
        let long = "x".repeat(200);
        let names: Vec<_> =
            (0..100).map(|number| exposed_name("server", &format!("{long}{number}"))).collect();
        let unique: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!((unique.len(), names.iter().map(String::len).max()), (100, Some(64)));
    }
}
