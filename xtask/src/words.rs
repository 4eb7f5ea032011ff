//! `check`: the wording of docs, comments, and messages. `xtask/words.txt` lists phrases and their replacements.
//!
//! Only text is examined, never code: Markdown, comments, and string literals. Literals in tests are exempt, because
//! tests quote what users and models write.

use std::fs;

use crate::error::Error;
use crate::process::root;
use crate::source::{Piece, files, is_word, only};

/// A line of the list.
enum Rule {
    /// A phrase in lower case, and the text to write instead.
    Phrase { text: String, instead: String },
    /// A file that needs the phrase.
    Exception { file: String, text: String },
}

/// Fails if a file of the repository contains a phrase of the list.
pub(crate) fn check() -> Result<(), Error> {
    let rules = parse(include_str!("../words.txt"))?;
    let mut findings = Vec::new();
    for path in files(&root(), &["md", "rs", "toml"])? {
        let file = path.strip_prefix(root()).unwrap_or(&path).display().to_string();
        let text = fs::read_to_string(&path).map_err(Error::file(&path))?;
        let examined = if file.ends_with(".rs") { rust_text(&text, is_test(&file)) } else { text };
        for (line, text, instead) in find(&rules, &file, &examined) {
            findings.push(format!("{file}:{line}: `{text}`; write: {instead}"));
        }
    }
    if findings.is_empty() { Ok(()) } else { Err(Error::Words(findings)) }
}

/// Parses lines such as `PHRASE => REPLACEMENT` and `FILE != PHRASE`.
fn parse(list: &str) -> Result<Vec<Rule>, Error> {
    let lines = list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let rules = lines.map(|line| {
        if let Some((text, instead)) = line.split_once(" => ") {
            return Ok(Rule::Phrase { text: text.to_lowercase(), instead: instead.to_owned() });
        }
        let (file, text) = line.split_once(" != ").ok_or_else(|| {
            Error::Usage(format!("`{line}` in xtask/words.txt has neither ` => ` nor ` != `"))
        })?;
        Ok(Rule::Exception { file: file.to_owned(), text: text.to_lowercase() })
    });
    rules.collect()
}

/// Returns `true` for files whose literals are exempt: tests, examples, and developer tools.
fn is_test(file: &str) -> bool {
    ["/examples/", "/tests/", "/tests.rs", "testkit/", "fuzz/", "benches/", "xtask/"]
        .iter()
        .any(|part| file.contains(part))
}

/// Finds each phrase in a file, with its line number and its replacement. A phrase may be wrapped over two lines.
fn find<'a>(rules: &'a [Rule], file: &str, text: &str) -> Vec<(usize, &'a str, &'a str)> {
    let is_exempt = |phrase: &str| {
        rules.iter().any(
            |rule| matches!(rule, Rule::Exception { file: other, text } if other == file && text == phrase),
        )
    };
    let phrases: Vec<_> = rules
        .iter()
        .filter_map(|rule| match rule {
            Rule::Phrase { text, instead } => Some((text.as_str(), instead.as_str())),
            Rule::Exception { .. } => None,
        })
        .filter(|(text, _)| !is_exempt(text))
        .collect();
    let lines: Vec<String> = text.lines().map(|line| line.trim().to_lowercase()).collect();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let before = if index == 0 { "" } else { lines[index - 1].as_str() };
        for (phrase, instead) in &phrases {
            let is_found = match phrase.strip_prefix("/// ") {
                Some(start) => starts_doc(before, line) && starts_with(&line[4..], start),
                None => contains(line, phrase) || is_wrapped(before, line, phrase),
            };
            if is_found {
                found.push((index + 1, *phrase, *instead));
            }
        }
    }
    found
}

/// Returns `true` if a line is the first one of a doc comment.
fn starts_doc(before: &str, line: &str) -> bool {
    ["///", "//!"].iter().any(|marker| {
        line.strip_prefix(marker).is_some_and(|rest| rest.starts_with(' ')) && !before.starts_with(marker)
    })
}

fn starts_with(text: &str, phrase: &str) -> bool {
    text.strip_prefix(phrase).is_some_and(|rest| !rest.starts_with(is_part))
}

/// Returns `true` if a phrase begins in one line and ends in the next.
fn is_wrapped(before: &str, line: &str, phrase: &str) -> bool {
    let marker = |line: &str| line.len() - line.trim_start_matches(['/', '!', '#', '|', '"']).len();
    let (before_marker, line_marker) = (marker(before), marker(line));
    // Only lines of the same kind belong together; a heading ends with its line.
    let is_joined = before[..before_marker] == line[..line_marker] && !before.starts_with(['#', '|', '"']);
    if !phrase.contains(' ') || before.is_empty() || line.is_empty() || !is_joined {
        return false;
    }
    let (before, line) = (before[before_marker..].trim(), line[line_marker..].trim());
    !contains(before, phrase) && !contains(line, phrase) && contains(&format!("{before} {line}"), phrase)
}

/// Returns `true` if a text contains a phrase as whole words.
fn contains(text: &str, phrase: &str) -> bool {
    text.match_indices(phrase).any(|(start, _)| {
        let (before, after) = (&text[..start], &text[start + phrase.len()..]);
        !before.ends_with(is_part) && !after.starts_with(is_part)
    })
}

/// Returns `true` for characters that are part of a word.
fn is_part(character: char) -> bool {
    is_word(character) || character == '-'
}

/// Returns the text of a Rust file: its comments, and its string literals unless they belong to tests: a test
/// file, or the rest of a file from its `mod tests` on.
fn rust_text(source: &str, is_test: bool) -> String {
    let is_module =
        |at: &usize| source[*at..].trim_start_matches("#[cfg(test)]").trim_start().starts_with("mod tests {");
    let tests = source.match_indices("#[cfg(test)]").map(|(at, _)| at).find(is_module);
    let (production, tests) = source.split_at(if is_test { 0 } else { tests.unwrap_or(source.len()) });
    only(production, |piece, _| piece != Piece::Code) + &only(tests, |piece, _| piece == Piece::Comment)
}

#[cfg(test)]
mod tests {
    use super::{find, parse, rust_text};

    #[test]
    fn phrases_are_found_as_whole_words() {
        let rules =
            parse("# a comment\nanew => again\ngoes on => continues\n/// Says => Returns\na.rs != anew\n")
                .unwrap();
        let text = "Start anew.\nanewly re-anew\n/// Says so.\n/// says\nHe /// says\n// It goes\n// on.\n";
        let found = |file| {
            find(&rules, file, text).into_iter().map(|(line, text, _)| (line, text)).collect::<Vec<_>>()
        };
        assert_eq!(found("b.rs"), [(1, "anew"), (3, "/// says"), (7, "goes on")]);
        assert_eq!(found("a.rs"), [(3, "/// says"), (7, "goes on")]);
        assert!(parse("anew -> again").is_err());
    }

    #[test]
    fn literals_of_tests_are_exempt() {
        let source = "#[cfg(test)]\nmod a;\nb(\"anew 1\"); // anew 2\n#[cfg(test)]\nmod tests {\n    c(\"anew 3\"); // anew 4\n}\n";
        assert_eq!(rust_text(source, false).matches("anew").count(), 3);
        assert_eq!(rust_text(source, true).matches("anew").count(), 2);
    }
}
