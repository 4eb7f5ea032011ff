//! Applies hunks to a text.

use super::parse::{Hunk, Line, PatchError};

/// Ways to compare lines; each is tried before the next.
const LIKENESS: [fn(&str, &str) -> bool; 3] = [
    |one, other| one == other,
    |one, other| one.trim_end() == other.trim_end(),
    |one, other| plain(one).trim() == plain(other).trim(),
];

/// Returns the text with its hunks applied, in order.
pub(super) fn edit(path: &str, text: &str, hunks: &[Hunk]) -> Result<String, PatchError> {
    let ends_with_newline = text.ends_with('\n') || text.is_empty();
    let body = text.strip_suffix('\n').unwrap_or(text);
    let old: Vec<&str> = if text.is_empty() { Vec::new() } else { body.split('\n').collect() };
    let returns = !old.is_empty() && old.iter().all(|line| line.ends_with('\r'));
    let mut new: Vec<String> = Vec::with_capacity(old.len());
    let mut done = 0;
    for (index, hunk) in hunks.iter().enumerate() {
        let at = find(&old, done, hunk).map_err(|anchor| {
            let (path, hunk) = (path.to_owned(), index + 1);
            match anchor.map(str::to_owned) {
                Some(anchor) => PatchError::NoAnchor { path, hunk, anchor },
                None => PatchError::NoMatch { path, hunk },
            }
        })?;
        new.extend(old[done..at].iter().map(|line| (*line).to_owned()));
        done = at;
        for line in &hunk.lines {
            match line {
                Line::Stays(_) => {
                    new.extend(old.get(done).map(|line| (*line).to_owned()));
                    done += 1;
                }
                Line::Goes(_) => done += 1,
                Line::Comes(text) if returns => new.push(format!("{text}\r")),
                Line::Comes(text) => new.push(text.clone()),
            }
        }
    }
    new.extend(old[done..].iter().map(|line| (*line).to_owned()));
    let newline = ends_with_newline && !hunks.last().is_some_and(|hunk| hunk.ends_file);
    let mut text = new.join("\n");
    if newline && !new.is_empty() {
        text.push('\n');
    }
    Ok(text)
}

/// Returns the line at which a hunk starts, at `from` or after it; or the anchor, if it is not found.
fn find<'a>(old: &[&str], from: usize, hunk: &'a Hunk) -> Result<usize, Option<&'a str>> {
    let from = match hunk.anchor.as_deref() {
        None => from,
        Some(anchor) => position(old, from, &[anchor]).ok_or(Some(anchor))? + 1,
    };
    let wanted: Vec<&str> = hunk.lines.iter().filter_map(Line::old).collect();
    if wanted.is_empty() {
        return Ok(if hunk.anchor.is_some() && !hunk.ends_file { from } else { old.len() });
    }
    let end = if hunk.ends_file { old.len().saturating_sub(wanted.len()) } else { 0 };
    position(old, from.max(end), &wanted).ok_or(None)
}

fn position(old: &[&str], from: usize, wanted: &[&str]) -> Option<usize> {
    let last = old.len().checked_sub(wanted.len())?;
    let fits = |at: usize, alike: fn(&str, &str) -> bool| {
        old[at..at + wanted.len()].iter().zip(wanted).all(|(one, other)| alike(one, other))
    };
    LIKENESS.iter().find_map(|alike| (from..=last).find(|at| fits(*at, *alike)))
}

impl Line {
    /// Returns the line of the old file, if there is one.
    fn old(&self) -> Option<&str> {
        match self {
            Self::Stays(text) | Self::Goes(text) => Some(text),
            Self::Comes(_) => None,
        }
    }
}

/// Replaces typographic quotes, dashes, and spaces with ASCII.
fn plain(text: &str) -> String {
    let plain = |letter: char| match letter {
        '\u{2018}' | '\u{2019}' | '\u{201a}' | '\u{201b}' => '\'',
        '\u{201c}' | '\u{201d}' | '\u{201e}' | '\u{201f}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{a0}' | '\u{2002}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        other => other,
    };
    text.chars().map(plain).collect()
}
