//! The targets, one file each. A new one is a file and a line in the table.

mod anthropic;
mod chat;
mod commands;
mod config;
mod gemini;
mod histories;
mod refusals;
mod registry;
mod responses;
mod schemas;
mod skills;
mod sse;
mod streams;
mod tools;

use crate::engine::Target;

/// Every target, in the order in which they run.
pub(crate) static TARGETS: [Target; 14] = [
    sse::TARGET,
    anthropic::TARGET,
    responses::TARGET,
    chat::TARGET,
    gemini::TARGET,
    refusals::TARGET,
    schemas::TARGET,
    histories::TARGET,
    commands::TARGET,
    config::TARGET,
    skills::TARGET,
    registry::TARGET,
    tools::PATCHES,
    tools::LINES,
];

/// Creates a corpus of texts.
fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// Removes the variable parts of a message, so that messages of one kind are equal.
fn kind_of(message: &str) -> String {
    let outside = message.split('`').step_by(2).collect::<Vec<_>>().join("`");
    outside.chars().filter(|c| !c.is_ascii_digit()).take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::TARGETS;
    use crate::random::Random;

    #[test]
    fn targets_have_unique_names_and_valid_corpora() {
        for (place, target) in TARGETS.iter().enumerate() {
            assert!(TARGETS[..place].iter().all(|other| other.name != target.name), "{}", target.name);
            let corpus = (target.corpus)();
            assert!(!corpus.is_empty(), "{}", target.name);
            for input in corpus {
                let verdict = (target.run)(&input, &mut Random::from_bytes(&input));
                assert_eq!(verdict.err(), None, "{}: {}", target.name, String::from_utf8_lossy(&input));
            }
        }
    }
}
