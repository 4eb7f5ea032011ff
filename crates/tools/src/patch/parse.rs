//! The grammar of patches.

use crate::ToolError;

/// One file's change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FileChange {
    Add { path: String, lines: Vec<String> },
    Delete { path: String },
    Update { path: String, move_to: Option<String>, hunks: Vec<Hunk> },
}

/// A group of context, removed, and added lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Hunk {
    /// A line of the file that precedes the hunk.
    pub(super) anchor: Option<String>,
    pub(super) lines: Vec<Line>,
    /// Whether the hunk ends the file.
    pub(super) ends_file: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Line {
    Stays(String),
    Goes(String),
    Comes(String),
}

/// Reason a patch was not applied. No file has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatchError {
    /// The patch is too long.
    #[error("the patch is longer than 4 MB")]
    TooLong,
    /// The patch has no start or no end marker.
    #[error("the patch must start with `*** Begin Patch` and end with `*** End Patch`")]
    NoFrame,
    /// The patch contains no changes.
    #[error("the patch names no file")]
    Empty,
    /// A line does not fit the grammar.
    #[error("invalid line {line} in the patch: {expected}")]
    Line {
        /// The line number.
        line: usize,
        /// The expected content.
        expected: &'static str,
    },
    /// Two parts change the same file.
    #[error("`{0}` is named twice; put all its hunks into one part")]
    Twice(String),
    /// A file to add already exists.
    #[error("`{0}` already exists; use `*** Update File`")]
    Exists(String),
    /// A file to change does not exist.
    #[error("no file `{0}`")]
    Missing(String),
    /// A file to change is not text.
    #[error("`{0}` is not UTF-8 text")]
    NotText(String),
    /// The anchor line of a hunk was not found.
    #[error(
        "`{path}`: hunk {hunk}: no line `{anchor}` at or after the expected position; read the file again"
    )]
    NoAnchor {
        /// The file.
        path: String,
        /// The hunk's number.
        hunk: usize,
        /// The line.
        anchor: String,
    },
    /// The lines that a hunk replaces were not found.
    #[error("`{path}`: hunk {hunk}: its lines do not match the file; read the file again")]
    NoMatch {
        /// The file.
        path: String,
        /// The hunk's number.
        hunk: usize,
    },
}

impl ToolError for PatchError {}

const ADD: &str = "*** Add File: ";
const DELETE: &str = "*** Delete File: ";
const UPDATE: &str = "*** Update File: ";
const MOVE: &str = "*** Move to: ";
const END_OF_FILE: &str = "*** End of File";

/// Parses a patch.
pub(super) fn parse(text: &str) -> Result<Vec<FileChange>, PatchError> {
    let lines: Vec<&str> = text.trim().lines().map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
    let [first, body @ .., last] = &lines[..] else { return Err(PatchError::NoFrame) };
    if first.trim() != "*** Begin Patch" || last.trim() != "*** End Patch" {
        return Err(PatchError::NoFrame);
    }
    let mut lines = Lines { body, next: 0 };
    let mut changes = Vec::new();
    while let Some(line) = lines.take() {
        changes.push(lines.change(line)?);
    }
    if changes.is_empty() { Err(PatchError::Empty) } else { Ok(changes) }
}

struct Lines<'a> {
    body: &'a [&'a str],
    next: usize,
}

impl<'a> Lines<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.body.get(self.next).copied()
    }

    fn take(&mut self) -> Option<&'a str> {
        let line = self.peek();
        self.next += 1;
        line
    }

    /// Returns an error for the last line that was taken.
    fn wrong(&self, expected: &'static str) -> PatchError {
        PatchError::Line { line: self.next + 1, expected }
    }

    fn change(&mut self, line: &str) -> Result<FileChange, PatchError> {
        let path = |text: &str| text.trim().to_owned();
        if let Some(name) = line.strip_prefix(ADD) {
            return Ok(FileChange::Add { path: path(name), lines: self.added()? });
        }
        if let Some(name) = line.strip_prefix(DELETE) {
            return Ok(FileChange::Delete { path: path(name) });
        }
        let Some(name) = line.strip_prefix(UPDATE) else {
            return Err(self.wrong("expected `*** Add File: `, `*** Delete File: `, or `*** Update File: `"));
        };
        let move_to = self.peek().and_then(|line| line.strip_prefix(MOVE)).map(path);
        if move_to.is_some() {
            self.next += 1;
        }
        Ok(FileChange::Update { path: path(name), move_to, hunks: self.hunks()? })
    }

    fn added(&mut self) -> Result<Vec<String>, PatchError> {
        let mut lines = Vec::new();
        while let Some(line) = self.peek().filter(|line| !line.starts_with("*** ")) {
            self.next += 1;
            let added = line.strip_prefix('+');
            lines.push(
                added.ok_or_else(|| self.wrong("each line of a new file must start with `+`"))?.to_owned(),
            );
        }
        Ok(lines)
    }

    fn hunks(&mut self) -> Result<Vec<Hunk>, PatchError> {
        let mut hunks: Vec<Hunk> = Vec::new();
        while let Some(line) = self.peek() {
            if line.trim_end() == END_OF_FILE {
                self.next += 1;
                let Some(hunk) = hunks.last_mut() else {
                    return Err(self.wrong("`*** End of File` must follow a hunk"));
                };
                hunk.ends_file = true;
                continue;
            }
            if line.starts_with("*** ") {
                break;
            }
            self.next += 1;
            if let Some(anchor) = line.strip_prefix("@@") {
                let anchor = anchor.strip_prefix(' ').filter(|anchor| !anchor.trim().is_empty());
                hunks.push(Hunk { anchor: anchor.map(str::to_owned), ..Hunk::default() });
                continue;
            }
            let line = hunk_line(line)
                .ok_or_else(|| self.wrong("a hunk's line must start with a space, `-`, or `+`"))?;
            // The first `@@` is optional.
            match hunks.last_mut() {
                Some(hunk) => hunk.lines.push(line),
                None => hunks.push(Hunk { lines: vec![line], ..Hunk::default() }),
            }
        }
        Ok(hunks)
    }
}

fn hunk_line(line: &str) -> Option<Line> {
    // Models omit the space of an empty context line.
    let Some(mark) = line.chars().next() else { return Some(Line::Stays(String::new())) };
    let rest = line[mark.len_utf8()..].to_owned();
    match mark {
        ' ' => Some(Line::Stays(rest)),
        '-' => Some(Line::Goes(rest)),
        '+' => Some(Line::Comes(rest)),
        _ => None,
    }
}
