//! Escaping of text for a terminal: anything that would move the cursor, change the terminal's state, or hide other
//! text.
//!
//! Escapes are JSON escapes, so a JSON document stays valid. The functions are pure; a writer calls them only if its
//! destination is a terminal, and writes to files and pipes unchanged.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Escapes control characters and bidirectional overrides. Newlines and tabs stay, and `\r\n` becomes `\n`.
#[must_use]
pub fn escape_text(text: &str) -> Cow<'_, str> {
    let is_kept = |letter: char| matches!(letter, '\n' | '\t') || !is_unsafe(letter);
    match text.contains("\r\n") {
        true => Cow::Owned(escape(&text.replace("\r\n", "\n"), is_kept).into_owned()),
        false => escape(text, is_kept),
    }
}

/// Escapes everything that is not visible as itself, newlines included, so the text stays on one line and nothing in
/// it is hidden from the reader.
#[must_use]
pub fn escape_line(text: &str) -> Cow<'_, str> {
    escape(text, |letter| !is_unsafe(letter) && !is_invisible(letter))
}

/// Returns the start of a text from outside, on one line, for an error message.
#[must_use]
pub fn excerpt(text: &str) -> String {
    start(text, 120)
}

/// Returns the start of an error message that may quote text from outside, on one line.
#[must_use]
pub fn excerpt_message(message: &str) -> String {
    start(message, 500)
}

/// Returns at most `max` characters of a text, escaped.
fn start(text: &str, max: usize) -> String {
    let Some((end, _)) = text.char_indices().nth(max) else { return escape_line(text).into_owned() };
    format!("{}…", escape_line(&text[..end]))
}

fn escape(text: &str, is_kept: impl Fn(char) -> bool) -> Cow<'_, str> {
    if text.chars().all(&is_kept) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        if is_kept(letter) { escaped.push(letter) } else { push_escaped(&mut escaped, letter) }
    }
    Cow::Owned(escaped)
}

/// Returns `true` for controls, line separators, and characters that reorder the text around them.
fn is_unsafe(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns `true` for characters without a visible glyph. Some belong to ordinary text, such as the joiners of
/// emoji.
fn is_invisible(letter: char) -> bool {
    matches!(letter,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{2800}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

fn push_escaped(escaped: &mut String, letter: char) {
    match letter {
        '\n' => escaped.push_str("\\n"),
        '\r' => escaped.push_str("\\r"),
        '\t' => escaped.push_str("\\t"),
        _ => {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{escape_line, escape_text};

    #[test]
    fn controls_and_overrides_are_escaped_in_text() {
        let hostile = "a\u{1b}]0;title\u{7}\u{9b}2J\u{202e}b\r\nc\td\re\u{7f}";
        assert_eq!(escape_text(hostile), "a\\u001b]0;title\\u0007\\u009b2J\\u202eb\nc\td\\re\\u007f");
    }

    #[test]
    fn ordinary_text_is_not_changed() {
        for text in ["one\ntwo\t3", "日本 שלום 👩\u{200d}🚀", ""] {
            assert_eq!(escape_text(text), text);
        }
        assert_eq!(escape_line("echo 'two words' 日本"), "echo 'two words' 日本");
    }

    #[test]
    fn escaped_line_shows_every_character() {
        let hidden = "a\nb\u{200b}\u{feff}\u{e0041}\u{2066}";
        assert_eq!(escape_line(hidden), "a\\nb\\u200b\\ufeff\\udb40\\udc41\\u2066");
    }

    #[test]
    fn escaped_json_is_still_json() {
        let value = serde_json::json!({ "text": "\u{9b}31m \u{e0041} \u{1b}[2J" });
        let escaped = escape_text(&value.to_string()).into_owned();
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), value);
        assert!(!escaped.contains('\u{9b}'), "{escaped}");
    }
}
