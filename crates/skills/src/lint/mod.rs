//! What is wrong with a skill by the rules of the format, and what is merely unwise.
//!
//! Errors are what the reference validator refuses, so a skill without errors passes anywhere. Warnings are what
//! makes a skill work badly, or what its reader should look at before trusting it.

mod advice;
mod fences;
mod strict;

use std::path::Path;

use serde::Serialize;

use crate::files::read_bounded;
use crate::read::inside;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The format forbids it.
    Error,
    /// It works, but could be better or should be looked at.
    Warning,
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The rule, by its name.
    pub rule: &'static str,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
    /// What to do.
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

/// Everything that was found in one skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Errors first, each in the order of lines.
    pub findings: Vec<Finding>,
    /// Whether Meerkat loads the skill all the same.
    pub loads: bool,
}

impl Report {
    /// Says whether the format has nothing against the skill.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity != Severity::Error)
    }
}

/// Examines the SKILL.md of the directory called `folder`.
#[must_use]
pub fn lint(folder: &str, file: &[u8]) -> Report {
    let mut findings = strict::check(folder, file);
    let text = String::from_utf8_lossy(file);
    let document = crate::Document::read(&text);
    let loads = document.is_ok() && file.len() as u64 <= crate::MAX_SKILL_BYTES;
    findings.extend(advice::check(&text, document.as_ref().ok()));
    findings.sort_by_key(|finding| (finding.severity, finding.line));
    Report { findings, loads }
}

/// Examines a SKILL.md in its directory, as it would be loaded: what is too large, or a link out of the directory, is not
/// read.
#[must_use]
pub fn lint_file(file: &Path) -> Report {
    let read = || {
        let resolved = file.parent().unwrap_or(Path::new(".")).canonicalize();
        let folder = resolved.map_err(crate::Error::file("read", file))?;
        let name = Path::new(file.file_name().unwrap_or_default());
        let bytes = read_bounded(&inside(&folder, name)?, crate::MAX_SKILL_BYTES)?;
        let folder = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok::<_, crate::Error>(lint(&folder, &bytes))
    };
    read().unwrap_or_else(|error| {
        let fix = "put a readable text file of at most 1 MiB there";
        Report { findings: vec![Finding::error("file", 1, error.to_string(), fix)], loads: false }
    })
}

#[cfg(test)]
mod tests;
