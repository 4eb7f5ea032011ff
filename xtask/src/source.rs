//! Lexer for Rust source that separates comments and literals from code, and omits tests.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// Kind of a piece of source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece {
    Comment,
    Literal,
    Code,
}

/// Returns the source with the other kinds of pieces blanked out, so that line numbers stay.
pub(crate) fn only(source: &str, is_wanted: impl Fn(Piece, &str) -> bool) -> String {
    let mut text = String::with_capacity(source.len());
    let mut rest = source;
    while !rest.is_empty() {
        let (token, piece) = next_token(rest);
        if is_wanted(piece, token) {
            text.push_str(token);
        } else {
            text.extend(token.chars().map(|character| if character == '\n' { '\n' } else { ' ' }));
        }
        rest = &rest[token.len()..];
    }
    text
}

/// Returns the code of a file without comments, literals, and test modules.
pub(crate) fn production_code(source: &str) -> String {
    let mut code = only(source, |piece, _| piece == Piece::Code);
    while let Some(start) = code.match_indices("#[cfg(").map(|(at, _)| at).find(|at| is_test(&code[*at..])) {
        let item = &code[start..];
        let end = match (item.find('{'), item.find(';')) {
            (Some(brace), semicolon) if semicolon.is_none_or(|at| brace < at) => {
                brace + block_length(&item[brace..])
            }
            (_, Some(semicolon)) => semicolon + 1,
            _ => item.len(),
        };
        let blank: String = item[..end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
        code.replace_range(start..start + end, &blank);
    }
    code
}

/// Returns `true` for an attribute that compiles its item only for tests: `#[cfg(test)]` or `#[cfg(all(test, …))]`.
fn is_test(attribute: &str) -> bool {
    let condition = attribute.split(']').next().unwrap_or_default().trim_start_matches("#[cfg(");
    let mut words = condition.split(|c: char| !is_word(c)).filter(|word| !word.is_empty());
    match words.next() {
        Some("test") => true,
        Some("all") => {
            !condition.contains("not(") && !condition.contains("any(") && words.any(|word| word == "test")
        }
        _ => false,
    }
}

/// Returns the length of a block, from its opening brace to its closing one.
fn block_length(code: &str) -> usize {
    let mut depth = 0_usize;
    for (at, character) in code.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    code.len()
}

/// Returns the files of a directory and those below it that have one of the extensions, in a fixed order. Hidden
/// directories and those of build output are skipped.
pub(crate) fn files(dir: &Path, extensions: &[&str]) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).map_err(Error::file(dir))? {
        let path = entry.map_err(Error::file(dir))?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if path.is_dir() {
            let is_output = name == "target" || name.starts_with("target-") || name == "node_modules";
            if !name.starts_with('.') && !is_output {
                files.extend(self::files(&path, extensions)?);
            }
        } else if path
            .extension()
            .is_some_and(|extension| extensions.iter().any(|wanted| extension == *wanted))
        {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Splits off a comment, a literal, or a word or character of code.
fn next_token(source: &str) -> (&str, Piece) {
    let first = source.chars().next().map_or(0, char::len_utf8);
    if source.starts_with("//") {
        return (&source[..source.find('\n').unwrap_or(source.len())], Piece::Comment);
    }
    if source.starts_with("/*") {
        return (&source[..source.find("*/").map_or(source.len(), |at| at + 2)], Piece::Comment);
    }
    if let Some(raw) = ["r", "br", "cr"].iter().find_map(|prefix| source.strip_prefix(prefix)) {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if raw[hashes..].starts_with('"') {
            let closing = format!("\"{}", "#".repeat(hashes));
            let start = source.len() - raw.len() + hashes + 1;
            let end = source[start..].find(&closing).map_or(source.len(), |at| start + at + closing.len());
            return (&source[..end], Piece::Literal);
        }
    }
    if source.starts_with('"') {
        let mut characters = source.char_indices().skip(1);
        while let Some((at, character)) = characters.next() {
            match character {
                '\\' => drop(characters.next()),
                '"' => return (&source[..=at], Piece::Literal),
                _ => {}
            }
        }
        return (source, Piece::Literal);
    }
    if let Some(escaped) = source.strip_prefix("'\\") {
        // The escaped character may be the quote itself.
        let end = escaped.char_indices().skip(1).find(|(_, character)| *character == '\'');
        return (&source[..end.map_or(source.len(), |(at, _)| at + 3)], Piece::Literal);
    }
    // A quoted character, which may be a quote or a brace; anything else that starts so is a lifetime.
    if let Some(quoted) = source.strip_prefix('\'') {
        let length = quoted.chars().next().map_or(0, char::len_utf8);
        if quoted[length..].starts_with('\'') {
            return (&source[..length + 2], Piece::Literal);
        }
    }
    // The `r` inside an identifier starts no raw string.
    let word = source.len() - source.trim_start_matches(is_word).len();
    (&source[..word.max(first)], Piece::Code)
}

/// Returns `true` for the characters of identifiers.
pub(crate) fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

#[cfg(test)]
mod tests {
    use super::{Piece, only, production_code};

    const SOURCE: &str = "fn a() { let x = 'a'; } // b 1\nlet s = \"b \\\" 2\"; let q = ['\"', '\\'', '{'];\na(r#\"b \" 3\"#);\n";

    #[test]
    fn comments_and_literals_are_separated_from_code() {
        let text = only(SOURCE, |piece, _| piece != Piece::Code);
        assert_eq!((text.matches('b').count(), text.lines().count()), (3, 3), "{text}");
        let code = only(SOURCE, |piece, _| piece == Piece::Code);
        assert_eq!((code.matches('b').count(), code.matches('{').count()), (0, 1), "{code}");
    }

    #[test]
    fn tests_are_not_production_code() {
        let source = "mod a;\n#[cfg(test)]\nmod tests;\nfn b() {}\n#[cfg(all(test, feature = \"x\"))]\nmod more {\n    fn c() {}\n}\n\
            #[cfg(any(test, unix))]\nfn d() {}\n";
        let code = production_code(source);
        let words: Vec<_> = code.split_whitespace().collect();
        assert_eq!(words.join(" "), "mod a; fn b() {} #[cfg(any(test, unix))] fn d() {}");
        assert_eq!(code.lines().count(), source.lines().count());
    }
}
