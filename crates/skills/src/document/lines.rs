//! Reads frontmatter that is not valid YAML line by line.
//!
//! The intent is nearly always clear: a key at the start of a line, a colon, and the rest of the line as the value.
//! Indented lines below belong to the value.

use serde_json::{Map, Value};

/// Reads the keys whose values are plain text.
pub(super) fn read(head: &str) -> Vec<(String, String, usize)> {
    let mut fields: Vec<(String, String, usize)> = Vec::new();
    let mut open: Option<Open> = None;
    for (index, line) in head.lines().enumerate() {
        if let Some((key, rest)) = key_of(line) {
            close(&mut fields, open.take());
            open = Some(Open { key, first: rest.trim().to_owned(), more: Vec::new(), line: index + 1 });
        } else if let Some(value) = open.as_mut() {
            value.more.push(line.trim().to_owned());
        }
    }
    close(&mut fields, open);
    fields
}

/// Builds a map of the fields; the first of two with the same key wins.
pub(super) fn map(fields: &[(String, String, usize)]) -> Map<String, Value> {
    let mut map = Map::new();
    for (key, value, _) in fields {
        map.entry(key.clone()).or_insert_with(|| Value::String(value.clone()));
    }
    map
}

/// A value whose lines are still being collected.
struct Open {
    key: String,
    first: String,
    more: Vec<String>,
    line: usize,
}

fn key_of(line: &str) -> Option<(String, &str)> {
    if line.starts_with([' ', '\t', '#', '-']) {
        return None;
    }
    let (key, rest) = line.split_once(':')?;
    let key = key.trim_end().trim_matches(['"', '\'']);
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (!key.is_empty() && key.chars().all(fits)).then(|| (key.to_owned(), rest))
}

fn close(fields: &mut Vec<(String, String, usize)>, value: Option<Open>) {
    let Some(Open { key, first, more, line }) = value else { return };
    let block = first.starts_with(['|', '>']) && first.len() <= 3;
    let between = if first.starts_with('|') { "\n" } else { " " };
    let mut parts: Vec<&str> = if block { Vec::new() } else { vec![&first] };
    parts.extend(more.iter().map(String::as_str));
    let text = parts.join(between);
    let text = unquoted(text.trim());
    fields.push((key, text.to_owned(), line));
}

/// Strips quotes around the entire text.
fn unquoted(text: &str) -> &str {
    for quote in ['"', '\''] {
        let inner = text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
        if let Some(inner) = inner {
            return inner;
        }
    }
    text
}
