//! Text in the XML that models read.

/// Escapes a text so that it cannot end the element it stands in.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Shortens a text to at most `limit` bytes, at a word, and says so with an ellipsis.
pub(crate) fn shortened(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let cut = &text[..text.floor_char_boundary(limit.saturating_sub('…'.len_utf8()))];
    let word = cut.rfind(char::is_whitespace).filter(|at| *at > limit / 2).unwrap_or(cut.len());
    format!("{}…", cut[..word].trim_end())
}
