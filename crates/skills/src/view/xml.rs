//! Escapes and shortens text for XML that models read.

/// Returns the entity for a character that must be escaped in the text of an element. `before` is the text before it.
fn entity(before: &str, c: char) -> Option<&'static str> {
    match c {
        '&' => Some("&amp;"),
        '<' => Some("&lt;"),
        // Only `]]>` must be escaped.
        '>' if before.ends_with("]]") => Some("&gt;"),
        _ => None,
    }
}

/// Escapes only the characters that XML does not allow in the text of an element.
pub(crate) fn escaped_text(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        match entity(&text[..at], c) {
            Some(entity) => escaped.push_str(entity),
            None => escaped.push(c),
        }
    }
    escaped
}

/// Returns the length of a text in bytes after escaping it as the text of an element.
pub(crate) fn escaped_len(text: &str) -> usize {
    escaped_lengths(text).map(|(_, length)| length).sum()
}

/// Returns the end of each character of a text, and its length in bytes after escaping.
fn escaped_lengths(text: &str) -> impl Iterator<Item = (usize, usize)> {
    text.char_indices().map(|(at, c)| {
        let plain = c.len_utf8();
        (at + plain, entity(&text[..at], c).map_or(plain, str::len))
    })
}

/// Escapes the value of an attribute in double quotes.
pub(crate) fn escaped_attribute(text: &str) -> String {
    escaped_text(text).replace('"', "&quot;")
}

/// Shortens a text to at most `limit` bytes at a word boundary, and appends an ellipsis.
pub(crate) fn shortened(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    ellipsized(&text[..text.floor_char_boundary(limit.saturating_sub(ELLIPSIS.len()))])
}

/// Shortens a text at a word boundary so that it takes at most `limit` bytes after escaping, and appends an ellipsis.
pub(crate) fn shortened_for_escaping(text: &str, limit: usize) -> String {
    if escaped_len(text) <= limit {
        return text.to_owned();
    }
    let mut left = limit.saturating_sub(ELLIPSIS.len());
    let fits = |(_, length): &(usize, usize)| {
        let rest = left.checked_sub(*length);
        left = rest.unwrap_or_default();
        rest.is_some()
    };
    let end = escaped_lengths(text).take_while(fits).last().map_or(0, |(end, _)| end);
    ellipsized(&text[..end])
}

const ELLIPSIS: &str = "…";

/// Ends a truncated text at its last word, unless that is far from its end, and appends an ellipsis.
fn ellipsized(cut: &str) -> String {
    let word = cut.rfind(char::is_whitespace).filter(|at| *at > cut.len() / 2).unwrap_or(cut.len());
    format!("{}{ELLIPSIS}", cut[..word].trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_xml_needs_is_escaped() {
        for (text, escaped) in [
            (r#"say "it's" a -> b"#, r#"say "it's" a -> b"#),
            ("a < b && c > d", "a &lt; b &amp;&amp; c > d"),
            ("]]> ]>", "]]&gt; ]>"),
        ] {
            assert_eq!(escaped_text(text), escaped);
            assert_eq!(escaped_len(text), escaped.len());
        }
        assert_eq!(escaped_attribute("\"a\" < b"), "&quot;a&quot; &lt; b");
    }

    #[test]
    fn escaped_length_limits_a_shortened_text() {
        for (text, limit, cut) in [
            ("a < b", 8, "a < b"),
            ("a < b", 7, "a…"),
            ("<<<<", 12, "<<…"),
            ("<<<<", 2, "…"),
            ("one two three", 12, "one two…"),
            ("]]>]]>", 11, "]]>]]…"),
        ] {
            let shortened = shortened_for_escaping(text, limit);
            assert_eq!(shortened, cut, "{text} {limit}");
        }
        let long = "a & <b> ".repeat(100);
        for limit in 3..200 {
            assert!(escaped_len(&shortened_for_escaping(&long, limit)) <= limit, "{limit}");
        }
    }
}
