//! Rendering for the terminal: tables, messages, and times.

use std::fmt::Display;
use std::path::Path;

use meerkat::{Content, Message, SessionView, escape_line};

/// Page that a table is printed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Page {
    /// Width, in columns.
    pub(crate) columns: usize,
    pub(crate) cells: Cells,
}

/// Escaping of table cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cells {
    /// Each cell on one line, without characters that a terminal interprets.
    Escaped,
    /// Unchanged.
    Verbatim,
}

/// Renders rows under their headings, no wider than the page: the last column is clipped.
pub(crate) fn table(headings: &[&str], rows: &[Vec<String>], page: Page) -> String {
    layout(headings, rows, page, clip)
}

/// Renders rows under their headings. The last column is never clipped.
pub(crate) fn unclipped_table(headings: &[&str], rows: &[Vec<String>], page: Page) -> String {
    layout(headings, rows, page, |cell, _| cell.to_owned())
}

fn layout(
    headings: &[&str],
    rows: &[Vec<String>],
    Page { columns, cells }: Page,
    fit: impl Fn(&str, usize) -> String,
) -> String {
    const GAP: usize = 2;
    let width = |text: &str| text.chars().count();
    let cell = |text: &String| match cells {
        Cells::Escaped => escape_line(text).into_owned(),
        Cells::Verbatim => text.clone(),
    };
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(cell).collect()).collect();
    let widths: Vec<usize> = (0..headings.len())
        .map(|column| {
            let cells = rows.iter().map(|row| row.get(column).map_or(0, |cell| width(cell)));
            cells.chain([width(headings[column])]).max().unwrap_or(0)
        })
        .collect();
    let before_last: usize = widths.iter().rev().skip(1).map(|width| width + GAP).sum();
    let last_width = columns.saturating_sub(before_last).max(8);
    let heading: Vec<String> = headings.iter().map(|heading| (*heading).to_owned()).collect();
    let mut out = String::new();
    for row in std::iter::once(&heading).chain(&rows) {
        let last = row.len().saturating_sub(1);
        for (column, cell) in row.iter().enumerate() {
            if column == last {
                out.push_str(&fit(cell, last_width));
            } else {
                out.push_str(cell);
                out.push_str(&" ".repeat(widths[column] - width(cell) + GAP));
            }
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
    out
}

/// Truncates a text to one line of at most `max_chars` characters.
pub(crate) fn clip(text: &str, max_chars: usize) -> String {
    let line = text.lines().next().unwrap_or_default();
    if line.chars().count() <= max_chars && !text.trim_end().contains('\n') {
        return line.to_owned();
    }
    let mut short: String = line.chars().take(max_chars.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// Formats a number with its noun, such as `2 steps`.
pub(crate) fn count(number: impl Display, noun: &str) -> String {
    let number = number.to_string();
    let plural = if number == "1" { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// Quotes a text as one shell word in which every character is visible.
pub(crate) fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+=:@%,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    if escape_line(text) == text {
        return format!("'{}'", text.replace('\'', r"'\''"));
    }
    let literal = text.replace('\\', r"\\").replace('\'', r"\'");
    format!("$'{}'", escape_line(&literal))
}

/// Formats the option that selects a state root, if one is given.
pub(crate) fn state_root_option(root: Option<&Path>) -> String {
    root.map(|root| format!("--state-root {} ", shell_word(&root.display().to_string()))).unwrap_or_default()
}

/// Formats an elapsed time, such as `2 min ago`.
pub(crate) fn ago(seconds: i64) -> String {
    match seconds {
        ..60 => "just now".to_owned(),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..86_400 => format!("{} h ago", seconds / 3600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

/// Formats a size, such as `12 MB`.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{} KB", bytes.div_ceil(1000)),
        1_000_000..1_000_000_000 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{} GB", bytes / 1_000_000_000),
    }
}

/// Renders a list of sessions; a narrow page gets fewer columns.
pub(crate) fn sessions(views: &[SessionView], now: i64, page: Page) -> String {
    if page.columns < 100 {
        return narrow(views, now, page);
    }
    let row = |view: &SessionView| {
        vec![
            view.id.to_string(),
            ago(now - view.updated_at.as_second()),
            state(view).unwrap_or("idle").to_owned(),
            view.message_count.to_string(),
            view.usage.total().to_string(),
            view.model.clone(),
            labels(view),
        ]
    };
    let rows: Vec<_> = views.iter().map(row).collect();
    table(&["SESSION", "CHANGED", "STATE", "MESSAGES", "TOKENS", "MODEL", "LABELS"], &rows, page)
}

fn narrow(views: &[SessionView], now: i64, page: Page) -> String {
    const MODEL_WIDTH: usize = 16;
    let row = |view: &SessionView| {
        let since = || ago(now - view.updated_at.as_second()).trim_end_matches(" ago").to_owned();
        let changed = state(view).map_or_else(since, str::to_owned);
        vec![
            view.id.to_string(),
            changed,
            view.message_count.to_string(),
            clip(&view.model, MODEL_WIDTH),
            labels(view),
        ]
    };
    let rows: Vec<_> = views.iter().map(row).collect();
    table(&["SESSION", "CHANGED", "MSGS", "MODEL", "LABELS"], &rows, page)
}

/// Returns the state of a session that is not idle.
fn state(view: &SessionView) -> Option<&'static str> {
    match view {
        SessionView { is_active: true, .. } => Some("running"),
        SessionView { is_archived: true, .. } => Some("archived"),
        SessionView { is_waiting: true, .. } => Some("waiting"),
        _ => None,
    }
}

fn labels(view: &SessionView) -> String {
    let labels: Vec<_> = view.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    labels.join(" ")
}

/// Renders a message.
pub(crate) fn message(message: &Message) -> String {
    match message {
        Message::System { content, .. } => block("system", content),
        Message::SystemNotice { body, .. } => block("notice", body),
        Message::User { content, .. } => block("user", &content.to_text()),
        Message::Assistant { .. } => {
            let text = message.assistant_text().unwrap_or_default();
            let calls = message.tool_calls();
            let calls =
                calls.iter().map(|call| format!("→ {} {}", call.name, clip(&call.args.to_string(), 400)));
            let mark = message.is_interrupted().then(|| "[interrupted]".to_owned());
            let text = std::iter::once(text).filter(|text| !text.is_empty());
            let parts: Vec<_> = text.chain(calls).chain(mark).collect();
            block("agent", &parts.join("\n"))
        }
        Message::ToolResults { results, .. } => {
            let line = |content: &Content, mark: &str| format!("{mark} {}", content.to_text());
            let lines: Vec<_> =
                results.iter().map(|r| line(&r.content, if r.is_error { "✗" } else { "✓" })).collect();
            block("tools", &lines.join("\n"))
        }
    }
}

fn block(who: &str, text: &str) -> String {
    let mut out = String::new();
    for (index, line) in text.lines().enumerate() {
        let head = if index == 0 { who } else { "" };
        out.push_str(format!("{head:<8}{line}").trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_fits_page_by_clipping_last_column() {
        let rows = vec![
            vec!["a".to_owned(), "short".to_owned()],
            vec!["bbb".to_owned(), "much too long for this table".to_owned()],
        ];
        let page = Page { columns: 20, cells: Cells::Verbatim };
        assert_eq!(table(&["X", "TEXT"], &rows, page), "X    TEXT\na    short\nbbb  much too long …\n");
        assert_eq!(table(&["X", "TEXT"], &[], page), "X  TEXT\n");
    }

    #[test]
    fn terminal_cell_cannot_fake_a_row() {
        let rows = vec![vec!["a\nb  fake".to_owned(), "\u{1b}[2Jx\ny".to_owned()]];
        let page = Page { columns: 80, cells: Cells::Escaped };
        assert_eq!(table(&["NAME", "TEXT"], &rows, page), "NAME        TEXT\na\\nb  fake  \\u001b[2Jx\\ny\n");
    }

    #[test]
    fn shell_word_shows_every_character() {
        let words = ["/tmp/realms", "my realms", "it's", "$HOME", "", "a\n\u{202e}'b\\"].map(shell_word);
        let expected = ["/tmp/realms", "'my realms'", r"'it'\''s'", "'$HOME'", "''", r"$'a\n\u202e\'b\\'"];
        assert_eq!(words, expected);
    }

    #[test]
    fn ago_formats_elapsed_time() {
        let cases =
            [(5, "just now"), (120, "2 min ago"), (7200, "2 h ago"), (200_000, "2 d ago"), (-3, "just now")];
        for (seconds, text) in cases {
            assert_eq!(ago(seconds), text);
        }
    }
}
