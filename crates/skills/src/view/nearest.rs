//! Sorting skills by how near they are to what a caller asked for.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::Skill;

/// Shorter words are in nearly every description.
const MIN_WORD: usize = 3;
/// Longer texts are not compared letter by letter.
const MAX_COMPARED: usize = 64;

/// How near a skill is, the nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Nearness {
    /// One name is the start of the other.
    Start,
    /// One name contains the other.
    Inside,
    /// The names differ in a few letters.
    Misspelled,
    /// Words are in the name.
    Name(Reverse<usize>),
    /// Words are in the description.
    Description(Reverse<usize>),
    Unrelated,
}

/// Sorts skills, the nearest to what was asked for first. Those that are equally near keep their order.
pub(super) fn nearest_first<'a>(
    skills: impl Iterator<Item = &'a Arc<Skill>>,
    asked: &str,
) -> Vec<&'a Arc<Skill>> {
    let asked = plain(asked);
    let mut sorted: Vec<_> = skills.collect();
    sorted.sort_by_cached_key(|skill| nearness(skill, &asked));
    sorted
}

fn nearness(skill: &Skill, asked: &str) -> Nearness {
    if asked.is_empty() {
        return Nearness::Unrelated;
    }
    let name = plain(&skill.name);
    let comparable = name.len() >= MIN_WORD;
    if name.starts_with(asked) || (comparable && asked.starts_with(&name)) {
        return Nearness::Start;
    }
    if name.contains(asked) || (comparable && asked.contains(&name)) {
        return Nearness::Inside;
    }
    if is_misspelled(&name, asked) {
        return Nearness::Misspelled;
    }
    let words = || asked.split(' ').filter(|word| word.chars().count() >= MIN_WORD);
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

/// Writes a text in lower case, with one space between its words and without signs.
fn plain(text: &str) -> String {
    let lower = text.to_lowercase();
    let words: Vec<_> = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

/// Returns true if one text becomes the other by changing a few letters.
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
    fn signs_and_case_do_not_count() {
        assert_eq!(plain("MCP-Builder_v2  (new)"), "mcp builder v2 new");
        assert_eq!(plain("../"), "");
    }
}
