//! Classifies the lines of a Markdown text as text, code, or HTML. Readers see every character of code.
//!
//! Fences are recognized as strictly as in Markdown, because text that merely resembles a fence must not hide a
//! comment from the checks.

/// Maximum indentation of a fence relative to the text around it. Beyond that it is a line of code.
const MAX_INDENT: usize = 3;

/// HTML elements that end with the closing tag. Any other HTML ends with a blank line.
const RAW_TAGS: [(&str, &str); 4] =
    [("<pre", "</pre>"), ("<script", "</script>"), ("<style", "</style>"), ("<textarea", "</textarea>")];

/// Kind of content that a line belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Text,
    Code,
    Html,
}

/// Tracks the code blocks of a text line by line.
#[derive(Debug, Default)]
pub(super) struct Fences {
    open: Option<Fence>,
    html: Option<Html>,
    /// Column where the text of the current list item starts.
    item: usize,
}

/// End of the current HTML block.
#[derive(Debug, Clone, Copy)]
enum Html {
    BlankLine,
    Tag(&'static str),
}

#[derive(Debug)]
struct Fence {
    mark: u8,
    length: usize,
    /// Column where the text of the list item that contains it starts. The block ends with the item.
    item: usize,
}

impl Fences {
    /// Takes the next line and returns the part that it belongs to.
    pub(super) fn part_of(&mut self, line: &str) -> Part {
        let text = line.trim_start_matches([' ', '\t']);
        let indent = columns(&line[..line.len() - text.len()]);
        if let Some(fence) = &self.open {
            let in_item = text.is_empty() || indent >= fence.item;
            if in_item && indent <= fence.item + MAX_INDENT && fence.is_closed_by(text) {
                self.open = None;
            }
            if in_item {
                return Part::Code;
            }
            self.open = None;
        }
        if let Some(html) = self.html {
            self.html = Some(html).filter(|html| !html.ends_with(text));
            return Part::Html;
        }
        if text.is_empty() {
            return Part::Text;
        }
        if indent < self.item {
            self.item = 0;
        }
        let (text, indent) = self.enter_items(text, indent);
        if indent > self.item + MAX_INDENT {
            return Part::Text;
        }
        self.open = Fence::opened_by(text, self.item);
        let html = Html::opened_by(text);
        self.html = html.filter(|html| !html.ends_with(text));
        match (&self.open, html) {
            (Some(_), _) => Part::Code,
            (None, Some(_)) => Part::Html,
            (None, None) => Part::Text,
        }
    }

    /// Enters the list items that a line starts, and returns the rest of the line and its column.
    fn enter_items<'a>(&mut self, mut text: &'a str, mut indent: usize) -> (&'a str, usize) {
        while indent <= self.item + MAX_INDENT
            && let Some(marker) = list_marker(text)
        {
            let rest = text[marker..].trim_start_matches([' ', '\t']);
            let spaces = columns(&text[marker..text.len() - rest.len()]);
            // With more spaces, the item starts with a line of code.
            self.item = indent + marker + if spaces > MAX_INDENT + 1 { 1 } else { spaces.max(1) };
            indent += marker + spaces;
            text = rest;
        }
        (text, indent)
    }
}

impl Html {
    fn opened_by(text: &str) -> Option<Self> {
        let tag = text.strip_prefix('<')?;
        if !tag.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '!' | '?')) {
            return None;
        }
        let lower = text.to_ascii_lowercase();
        let raw = RAW_TAGS.iter().find(|(open, _)| lower.starts_with(open));
        Some(raw.map_or(Self::BlankLine, |(_, close)| Self::Tag(close)))
    }

    fn ends_with(self, text: &str) -> bool {
        match self {
            Self::BlankLine => text.is_empty(),
            Self::Tag(close) => text.to_ascii_lowercase().contains(close),
        }
    }
}

impl Fence {
    fn opened_by(text: &str, item: usize) -> Option<Self> {
        let mark = *text.as_bytes().first().filter(|mark| matches!(mark, b'`' | b'~'))?;
        let length = text.bytes().take_while(|byte| *byte == mark).count();
        // Backticks after the fence make it inline code.
        let inline = mark == b'`' && text[length..].contains('`');
        (length >= 3 && !inline).then_some(Self { mark, length, item })
    }

    fn is_closed_by(&self, text: &str) -> bool {
        let length = text.bytes().take_while(|byte| *byte == self.mark).count();
        length >= self.length && text[length..].trim().is_empty()
    }
}

/// Returns the length of the marker that starts a list item.
fn list_marker(text: &str) -> Option<usize> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let length = match text.as_bytes().get(digits)? {
        b'-' | b'*' | b'+' if digits == 0 => 1,
        b'.' | b')' if (1..=9).contains(&digits) => digits + 1,
        _ => return None,
    };
    matches!(text.as_bytes().get(length), None | Some(b' ' | b'\t')).then_some(length)
}

/// Returns the width of spaces and tabs; a tab counts as four spaces.
fn columns(blank: &str) -> usize {
    blank.bytes().map(|byte| if byte == b'\t' { 4 } else { 1 }).sum()
}

/// Removes inline code, which readers see verbatim.
pub(super) fn without_inline_code(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(start) = rest.find('`') {
        text.push_str(&rest[..start]);
        let length = rest[start..].bytes().take_while(|byte| *byte == b'`').count();
        let after = &rest[start + length..];
        match closing(after, length) {
            Some(end) => rest = &after[end..],
            None => {
                text.push_str(&rest[start..start + length]);
                rest = after;
            }
        }
    }
    text.push_str(rest);
    text
}

/// Finds the end of the run of exactly `length` backticks that closes inline code.
fn closing(text: &str, length: usize) -> Option<usize> {
    let mut at = 0;
    while let Some(start) = text[at..].find('`').map(|found| at + found) {
        let run = text[start..].bytes().take_while(|byte| *byte == b'`').count();
        if run == length {
            return Some(start + run);
        }
        at = start + run;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the lines in code blocks, from 1.
    fn inside(text: &str) -> Vec<usize> {
        let mut fences = Fences::default();
        let lines = text.lines().enumerate();
        lines.filter_map(|(index, line)| (fences.part_of(line) == Part::Code).then_some(index + 1)).collect()
    }

    #[test]
    fn fences_end_like_in_markdown() {
        for (text, expected) in [
            ("a\n```md\nb\n```\nc", vec![2, 3, 4]),
            ("~~~\n```\n~~~\nb", vec![1, 2, 3]),
            ("````\n```\n````\nb", vec![1, 2, 3]),
            ("```\nnever closed", vec![1, 2]),
            ("   ```\nb\n```", vec![1, 2, 3]),
            ("- a\n  ```\n  b\n  ```\n  c", vec![2, 3, 4]),
            ("1. a\n\n   ```\n   b\n\n   ```\nc", vec![3, 4, 5, 6]),
            ("- a\n  - b\n\n    ```\n    c\n    ```\nd", vec![4, 5, 6]),
            ("- ```\n  a\n  ```\nb", vec![1, 2, 3]),
            ("<pre>a</pre>\n```\nb\n```", vec![2, 3, 4]),
            ("<details>\n\n```\nb\n```", vec![3, 4, 5]),
            ("```js\nx\n``` not a close\n```\ny", vec![1, 2, 3, 4]),
        ] {
            assert_eq!(inside(text), expected, "{text:?}");
        }
    }

    #[test]
    fn text_resembling_a_fence_is_not_code() {
        for text in [
            "    ```\na",
            "``\na",
            "```a```\nb",
            "a ```\nb",
            "\t```\na",
            "<div>\n```\n<!-- a -->",
            "<pre>\n\n```\na",
            "<x-y>\n~~~\na",
        ] {
            assert_eq!(inside(text), [0; 0], "{text:?}");
        }
        assert_eq!(inside("- a\n  ```\n  b\nc\n"), [2, 3], "the list item ends, and the block with it");
    }

    #[test]
    fn inline_code_is_removed() {
        for (line, expected) in [
            ("a `<!-- b -->` c", "a  c"),
            ("``a ` b`` c", " c"),
            ("a ` b <!-- c -->", "a ` b <!-- c -->"),
            ("`a`<!-- b -->`c`", "<!-- b -->"),
        ] {
            assert_eq!(without_inline_code(line), expected);
        }
    }
}
