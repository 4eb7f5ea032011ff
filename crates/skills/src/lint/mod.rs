//! Checks a skill for violations of the format and for questionable content.
//!
//! Errors are violations that the reference validator rejects, so a skill without errors passes anywhere. Warnings are
//! flaws that make a skill less useful, or content that a user should review before trusting it.

mod advice;
mod fences;
mod strict;

use std::path::Path;

use serde::Serialize;

use crate::files::read_bounded;
use crate::read::inside;

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The format forbids it.
    Error,
    /// It works, but should be improved or reviewed.
    Warning,
}

/// A result of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The severity.
    pub severity: Severity,
    /// Name of the rule.
    pub rule: &'static str,
    /// The line, from 1.
    pub line: usize,
    /// The problem.
    pub message: String,
    /// Suggested fix.
    pub fix: &'static str,
}

impl Finding {
    fn error(rule: &'static str, line: usize, message: impl Into<String>, fix: &'static str) -> Self {
        Self { severity: Severity::Error, rule, line, message: message.into(), fix }
    }

    fn warning(rule: &'static str, line: usize, message: impl Into<String>, fix: &'static str) -> Self {
        Self { severity: Severity::Warning, rule, line, message: message.into(), fix }
    }
}

/// All findings in a skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Findings, errors first, each group in line order.
    pub findings: Vec<Finding>,
    /// Whether Meerkat loads the skill despite the findings.
    pub loads: bool,
}

impl Report {
    /// Returns `true` if the skill does not violate the format.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity != Severity::Error)
    }
}

/// Checks the SKILL.md of the directory named `dir`.
#[must_use]
pub fn lint(dir: &str, file: &[u8]) -> Report {
    let mut findings = strict::check(dir, file);
    let text = String::from_utf8_lossy(file);
    let document = crate::Document::read(&text);
    let loads = document.is_ok() && file.len() as u64 <= crate::MAX_SKILL_BYTES;
    findings.extend(advice::check(&text, document.as_ref().ok()));
    findings.sort_by_key(|finding| (finding.severity, finding.line));
    Report { findings, loads }
}

/// Checks a SKILL.md in its directory as it would be loaded: a file that is too large, or a symlink out of the
/// directory, is not read.
#[must_use]
pub fn lint_file(file: &Path) -> Report {
    let read = || {
        let resolved = file.parent().unwrap_or(Path::new(".")).canonicalize();
        let dir = resolved.map_err(crate::Error::file("read", file))?;
        let name = Path::new(file.file_name().unwrap_or_default());
        let bytes = read_bounded(&inside(&dir, name)?, crate::MAX_SKILL_BYTES)?;
        let dir = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok::<_, crate::Error>(lint(&dir, &bytes))
    };
    read().unwrap_or_else(|error| {
        let fix = "put a readable text file of at most 1 MiB there";
        Report { findings: vec![Finding::error("file", 1, error.to_string(), fix)], loads: false }
    })
}

#[cfg(test)]
mod tests;
