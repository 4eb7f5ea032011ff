//! `check`: the wording of docs, comments, and messages. `xtask/words.txt` lists phrases and their replacements.
//!
//! Only text is examined, never code: Markdown, comments, and string literals. Literals in tests are exempt, because
//! tests quote what users and models write.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::process::root;

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
    for path in files(&root())? {
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

/// Returns the Markdown and Rust files of a directory and those below it, without what was installed or built there.
fn files(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).map_err(Error::file(dir))? {
        let path = entry.map_err(Error::file(dir))?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if path.is_dir() {
            if !name.starts_with('.') && !name.starts_with("target") && name != "node_modules" {
                files.extend(self::files(&path)?);
            }
        } else if name.ends_with(".rs") || name.ends_with(".md") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
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
    let is_word =
        |character: Option<char>| character.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '-');
    line.match_indices(phrase).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + phrase.len()..].chars().next();
        (start == 0 || !phrase.starts_with("///")) && !is_word(before) && !is_word(after)
    })
}

/// Returns a Rust file with its code blanked out, so that line numbers stay: comments are left, and string literals
/// unless they belong to tests.
fn rust_text(source: &str, is_test: bool) -> String {
    let mut text = String::with_capacity(source.len());
    let mut rest = source;
    let mut in_tests = is_test;
    while !rest.is_empty() {
        in_tests |= rest.starts_with("#[cfg(test)]");
        let (token, is_text) = next_token(rest);
        if is_text && (!in_tests || token.starts_with("//")) {
            text.push_str(token);
        } else {
            text.extend(token.chars().map(|character| if character == '\n' { '\n' } else { ' ' }));
        }
        rest = &rest[token.len()..];
    }
    text
}

/// Splits off a comment, a literal, or one character of code, and says whether it is text.
fn next_token(source: &str) -> (&str, bool) {
    let first = source.chars().next().map_or(0, char::len_utf8);
    if source.starts_with("//") {
        return (&source[..source.find('\n').unwrap_or(source.len())], true);
    }
    if let Some(raw) = source.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if raw[hashes..].starts_with('"') {
            let closing = format!("\"{}", "#".repeat(hashes));
            let start = 2 + hashes;
            let end = source[start..].find(&closing).map_or(source.len(), |at| start + at + closing.len());
            return (&source[..end], true);
        }
    }
    if source.starts_with('"') {
        let mut characters = source.char_indices().skip(1);
        while let Some((at, character)) = characters.next() {
            match character {
                '\\' => drop(characters.next()),
                '"' => return (&source[..=at], true),
                _ => {}
            }
        }
        return (source, true);
    }
    // A quoted character, which may be a quote; anything else that starts so is a lifetime.
    if let Some(escaped) = source.strip_prefix("'\\") {
        // The escaped character may be the quote itself.
        let end = escaped.char_indices().skip(1).find(|(_, character)| *character == '\'');
        return (&source[..end.map_or(source.len(), |(at, _)| at + 3)], false);
    }
    if source.starts_with("'\"'") {
        return (&source[..3], false);
    }
    // The `r` of an identifier starts no raw string.
    let word = source.len() - source.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_').len();
    (&source[..word.max(first)], false)
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
    fn only_comments_and_literals_are_examined() {
        let source = "fn anew() { let x = 'a'; } // anew 1\nlet s = \"anew \\\" 2\"; let q = ['\"', '\\'', '\\u{22}']; anew(r#\"anew \" 3\"#);\n";
        let text = rust_text(source, false);
        assert_eq!(text.matches("anew").count(), 3, "{text}");
        assert_eq!(text.lines().count(), 2);
        assert_eq!(rust_text(source, true).matches("anew").count(), 1);
    }
}
