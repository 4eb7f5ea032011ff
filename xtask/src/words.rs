//! `check`: the wording of docs, comments, and messages. `xtask/words.txt` lists phrases and their replacements.
//!
//! Only text is examined, never code: Markdown, comments, and string literals. Literals in tests are exempt, because
//! tests quote what users and models write.

use std::fs;

use crate::error::Error;
use crate::process::root;
use crate::source::{Piece, files, is_word, only};

/// One line of the list.
struct Phrase {
    /// In lower case.
    text: String,
    /// Text to write instead.
    instead: String,
}

/// Fails if a file of the repository contains a phrase of the list.
pub(crate) fn check() -> Result<(), Error> {
    let phrases = phrases(include_str!("../words.txt"));
    let mut findings = Vec::new();
    for path in files(&root(), &["md", "rs"])? {
        let file = path.strip_prefix(root()).unwrap_or(&path).display().to_string();
        let text = fs::read_to_string(&path).map_err(Error::file(&path))?;
        let examined = if file.ends_with(".rs") { rust_text(&text, is_test(&file)) } else { text };
        findings
            .extend(find(&phrases, &examined).map(|(line, phrase)| {
                format!("{file}:{line}: `{}`; write: {}", phrase.text, phrase.instead)
            }));
    }
    if findings.is_empty() { Ok(()) } else { Err(Error::Words(findings)) }
}

fn phrases(list: &str) -> Vec<Phrase> {
    let entries =
        list.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(" => "));
    entries.map(|(text, instead)| Phrase { text: text.to_lowercase(), instead: instead.to_owned() }).collect()
}

fn is_test(file: &str) -> bool {
    ["/examples/", "/tests/", "/tests.rs", "testkit/", "fuzz/", "benches/", "xtask/"]
        .iter()
        .any(|part| file.contains(part))
}

/// Finds each phrase, with its line number.
fn find<'a>(phrases: &'a [Phrase], text: &str) -> impl Iterator<Item = (usize, &'a Phrase)> {
    let lines: Vec<String> = text.lines().map(|line| line.trim().to_lowercase()).collect();
    phrases.iter().flat_map(move |phrase| {
        let matching: Vec<_> = (1..).zip(&lines).filter(|(_, line)| contains(line, &phrase.text)).collect();
        matching.into_iter().map(|(number, _)| (number, phrase)).collect::<Vec<_>>()
    })
}

/// Returns true if a line contains a phrase as whole words, or starts with it if it is the start of a doc comment.
fn contains(line: &str, phrase: &str) -> bool {
    let is_word = |character: Option<char>| character.is_some_and(|c| is_word(c) || c == '-');
    line.match_indices(phrase).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + phrase.len()..].chars().next();
        (start == 0 || !phrase.starts_with("///")) && !is_word(before) && !is_word(after)
    })
}

/// Returns the text of a Rust file: its comments, and its string literals unless they belong to tests.
fn rust_text(source: &str, is_test: bool) -> String {
    let tests = if is_test { 0 } else { source.find("#[cfg(test)]").unwrap_or(source.len()) };
    let (production, tests) = source.split_at(tests);
    only(production, |piece, _| piece != Piece::Code) + &only(tests, |piece, _| piece == Piece::Comment)
}

#[cfg(test)]
mod tests {
    use super::{contains, find, phrases, rust_text};

    #[test]
    fn phrases_are_found_as_whole_words() {
        let phrases = phrases("# a comment\nanew => again\n/// Says => Returns\n");
        let text = "Start anew.\nanewly\n/// Says so.\nHe /// says\n";
        let found: Vec<_> = find(&phrases, text).map(|(line, phrase)| (line, phrase.text.as_str())).collect();
        assert_eq!(found, [(1, "anew"), (3, "/// says")]);
        assert!(!contains("a goes-on b", "goes"));
    }

    #[test]
    fn literals_of_tests_are_exempt() {
        let source = "a(\"anew 1\"); // anew 2\n#[cfg(test)]\nmod tests {\n    b(\"anew 3\"); // anew 4\n}\n";
        assert_eq!(rust_text(source, false).matches("anew").count(), 3);
        assert_eq!(rust_text(source, true).matches("anew").count(), 2);
    }
}
