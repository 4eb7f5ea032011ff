//! Checks for content that the format allows but a careful reviewer would flag.

use serde_json::Value;

use super::Finding;
use super::fences::{Fences, Part, without_inline_code};
use crate::Document;

/// Maximum lines of a body. A longer one fills the model's context before work starts.
const LONG_BODY: usize = 500;

pub(super) fn check(text: &str, document: Option<&Document<'_>>) -> Vec<Finding> {
    let lines = document.map_or(0, |document| document.body.lines().count());
    let total = text.lines().count();
    let head = document.map_or(0, |_| total.saturating_sub(lines));
    let mut findings = suspicious(text, head);
    let Some(document) = document else { return findings };
    // Without a body, report the last line of the frontmatter.
    let first = (total.saturating_sub(lines) + 1).min(total.max(1));
    if document.body.trim().is_empty() {
        let fix = "write instructions below the frontmatter";
        findings.push(Finding::warning("body", first, "the body is empty", fix));
    } else if lines > LONG_BODY {
        let message = format!("the body has {lines} lines, more than 500");
        findings.push(Finding::warning("body", first, message, "move details into files next to it"));
    }
    findings.extend(styles(document));
    findings
}

/// Finds keys that are not written in the style of the format.
fn styles(document: &Document<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let spaces = "write it as one line with spaces between the tools";
    let message = match document.fields.get("allowed-tools") {
        Some(Value::Array(_)) => Some("`allowed-tools` is a list"),
        Some(Value::String(text)) if text.contains(',') => Some("`allowed-tools` has commas"),
        _ => None,
    };
    if let Some(message) = message {
        let line = document.line_of("allowed-tools", None);
        findings.push(Finding::warning("allowed-tools", line, message, spaces));
    }
    if let Some(Value::Object(metadata)) = document.fields.get("metadata") {
        for (key, _) in metadata.iter().filter(|(_, value)| !value.is_string()) {
            let message = format!("`metadata.{key}` is not a string");
            let line = document.line_of("metadata", Some(key));
            findings.push(Finding::warning("metadata", line, message, "put quotes around it"));
        }
    }
    findings
}

/// Finds content that is hidden from readers, or that runs unreviewed code. The first `head` lines are frontmatter.
fn suspicious(text: &str, head: usize) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut fences = Fences::default();
    for (index, line) in text.lines().enumerate() {
        let part = if index < head { Part::Text } else { fences.part_of(line) };
        let mut warn = |rule, message, fix| findings.push(Finding::warning(rule, index + 1, message, fix));
        if line.trim_start_matches('\u{feff}').chars().any(invisible) {
            warn("invisible", "the text has an invisible character", "remove it");
        }
        if line.contains("<!--") && hides_comment(line, part) {
            warn(
                "comment",
                "a comment is hidden from readers but visible to the model",
                "remove it, or write it as visible text",
            );
        }
        let downloads = line.contains("curl ") || line.contains("wget ");
        let pipes = ["| sh", "|sh", "| bash", "|bash", "| sudo"].iter().any(|pipe| line.contains(pipe));
        if downloads && pipes {
            warn("download", "a download is run without review", "download it, read it, then run it");
        }
        if has_secret(line) {
            warn("secret", "this looks like a key or token", "remove it, and replace the key");
        }
    }
    findings
}

/// Returns `true` if a line with the start of a comment does not show it as code.
fn hides_comment(line: &str, part: Part) -> bool {
    match part {
        Part::Code => false,
        Part::Html => true,
        Part::Text => without_inline_code(line).contains("<!--"),
    }
}

fn invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}' | '\u{feff}'
        | '\u{e0000}'..='\u{e007f}')
}

fn has_secret(line: &str) -> bool {
    let long_after = |prefix: &str| {
        line.match_indices(prefix).any(|(at, _)| {
            let rest = line[at + prefix.len()..].bytes();
            rest.take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_')).count() >= 20
        })
    };
    ["sk-ant-", "sk-proj-", "ghp_", "github_pat_", "xoxb-", "AKIA"].into_iter().any(long_after)
        || line.contains("PRIVATE KEY-----")
}
