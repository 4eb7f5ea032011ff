//! What people read: tables that fit, messages, times.

use meerkat::{Content, Message, SessionView};

/// Renders rows under their headings, no wider than `columns`: the last column gives way.
pub(crate) fn table(headings: &[&str], rows: &[Vec<String>], columns: usize) -> String {
    const GAP: usize = 2;
    let width = |text: &str| text.chars().count();
    let widths: Vec<usize> = (0..headings.len())
        .map(|column| {
            let cells = rows.iter().map(|row| row.get(column).map_or(0, |cell| width(cell)));
            cells.chain([width(headings[column])]).max().unwrap_or(0)
        })
        .collect();
    let before_last: usize = widths.iter().rev().skip(1).map(|width| width + GAP).sum();
    let room = columns.saturating_sub(before_last).max(8);
    let heading: Vec<String> = headings.iter().map(|heading| (*heading).to_owned()).collect();
    let mut out = String::new();
    for row in std::iter::once(&heading).chain(rows) {
        let last = row.len().saturating_sub(1);
        for (column, cell) in row.iter().enumerate() {
            if column == last {
                out.push_str(&clip(cell, room));
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

/// Cuts a text to one line of at most `room` characters.
pub(crate) fn clip(text: &str, room: usize) -> String {
    let line = text.lines().next().unwrap_or_default();
    if line.chars().count() <= room && !text.trim_end().contains('\n') {
        return line.to_owned();
    }
    let mut short: String = line.chars().take(room.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// Says how long ago something was.
pub(crate) fn ago(seconds: i64) -> String {
    match seconds {
        ..60 => "just now".to_owned(),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..86_400 => format!("{} h ago", seconds / 3600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

/// Renders a list of sessions; on a narrow screen, as much of it as fits.
pub(crate) fn sessions(views: &[SessionView], now: i64, columns: usize) -> String {
    if columns < 100 {
        return narrow(views, now, columns);
    }
    let row = |view: &SessionView| {
        let state = match (view.is_active, view.is_archived) {
            (true, _) => "running",
            (_, true) => "archived",
            _ => "idle",
        };
        vec![
            view.id.to_string(),
            ago(now - view.updated_at.as_second()),
            state.to_owned(),
            view.message_count.to_string(),
            view.usage.total().to_string(),
            view.model.clone(),
            labels(view),
        ]
    };
    let rows: Vec<_> = views.iter().map(row).collect();
    table(&["SESSION", "CHANGED", "STATE", "MESSAGES", "TOKENS", "MODEL", "LABELS"], &rows, columns)
}

fn narrow(views: &[SessionView], now: i64, columns: usize) -> String {
    const MODEL: usize = 16;
    let row = |view: &SessionView| {
        let changed = match (view.is_active, view.is_archived) {
            (true, _) => "running".to_owned(),
            (_, true) => "archived".to_owned(),
            _ => ago(now - view.updated_at.as_second()).trim_end_matches(" ago").to_owned(),
        };
        vec![
            view.id.to_string(),
            changed,
            view.message_count.to_string(),
            clip(&view.model, MODEL),
            labels(view),
        ]
    };
    let rows: Vec<_> = views.iter().map(row).collect();
    table(&["SESSION", "CHANGED", "MSGS", "MODEL", "LABELS"], &rows, columns)
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
            let parts: Vec<_> = std::iter::once(text).filter(|text| !text.is_empty()).chain(calls).collect();
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
    fn tables_fit_and_the_last_column_gives_way() {
        let rows = vec![
            vec!["a".to_owned(), "short".to_owned()],
            vec!["bbb".to_owned(), "much too long for this table".to_owned()],
        ];
        assert_eq!(table(&["X", "TEXT"], &rows, 20), "X    TEXT\na    short\nbbb  much too long …\n");
        assert_eq!(table(&["X", "TEXT"], &[], 20), "X  TEXT\n");
    }

    #[test]
    fn times_are_told_as_people_do() {
        let cases =
            [(5, "just now"), (120, "2 min ago"), (7200, "2 h ago"), (200_000, "2 d ago"), (-3, "just now")];
        for (seconds, text) in cases {
            assert_eq!(ago(seconds), text);
        }
    }
}
