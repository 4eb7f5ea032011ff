//! Sorts skills by their similarity to a requested name.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::Skill;

/// Minimum length of a word to search for. Shorter ones are in nearly every description.
const MIN_WORD: usize = 3;
/// Maximum length of texts that are compared letter by letter.
const MAX_COMPARED: usize = 64;

/// Similarity of a skill, nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Nearness {
    /// One name is the start of the other.
    Start,
    /// One name contains the other.
    Inside,
    /// The names differ in a few letters.
    Misspelled,
    /// The name has some of the words.
    Name(Reverse<usize>),
    /// The description has some of the words.
    Description(Reverse<usize>),
    Unrelated,
}

/// Sorts skills by similarity to a query, nearest first. The sort is stable.
pub(super) fn nearest_first<'a>(
    skills: impl Iterator<Item = &'a Arc<Skill>>,
    query: &str,
) -> Vec<&'a Arc<Skill>> {
    let query = plain(query);
    let mut sorted: Vec<_> = skills.collect();
    sorted.sort_by_cached_key(|skill| nearness(skill, &query));
    sorted
}

fn nearness(skill: &Skill, query: &str) -> Nearness {
    if query.is_empty() {
        return Nearness::Unrelated;
    }
    let name = plain(&skill.name);
    let comparable = name.len() >= MIN_WORD;
    if name.starts_with(query) || (comparable && query.starts_with(&name)) {
        return Nearness::Start;
    }
    if name.contains(query) || (comparable && query.contains(&name)) {
        return Nearness::Inside;
    }
    if is_misspelled(&name, query) {
        return Nearness::Misspelled;
    }
    let words = || query.split(' ').filter(|word| word.chars().count() >= MIN_WORD);
    let count = |text: &str| words().filter(|word| text.contains(word)).count();
    let in_name = count(&name);
    if in_name > 0 {
        return Nearness::Name(Reverse(in_name));
    }
    match count(&skill.description.to_lowercase()) {
        0 => Nearness::Unrelated,
        found => Nearness::Description(Reverse(found)),
    }
}

/// Converts a text to lowercase words separated by single spaces, without punctuation.
fn plain(text: &str) -> String {
    let lower = text.to_lowercase();
    let words: Vec<_> = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

/// Returns `true` if a few edits turn one text into the other.
fn is_misspelled(one: &str, other: &str) -> bool {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let length = one.len().max(other.len());
    let allowed = length / 4;
    length <= MAX_COMPARED && one.len().abs_diff(other.len()) <= allowed && distance(&one, &other) <= allowed
}

/// Counts the letters to add, remove, or replace.
fn distance(one: &[char], other: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (index, wanted) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != wanted);
            diagonal = row[index + 1];
            row[index + 1] = replaced.min(diagonal + 1).min(row[index] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_wrong_letters_are_a_misspelling() {
        for (one, other, expected) in [
            ("kubernetes", "kubernets", true),
            ("kubernetes", "kubrenetes", true),
            ("git", "gti", false),
            ("postgres", "nonexistent", false),
            ("", "abc", false),
        ] {
            assert_eq!(is_misspelled(one, other), expected, "{one} {other}");
        }
    }

    #[test]
    fn punctuation_and_case_are_ignored() {
        assert_eq!(plain("MCP-Builder_v2  (new)"), "mcp builder v2 new");
        assert_eq!(plain("../"), "");
    }
}
