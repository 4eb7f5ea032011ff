//! SKILL.md files, as people and programs write them.

use meerkat_skills::{Document, lint};

use super::{kind_of, texts};
use crate::engine::{Target, Verdict};
use crate::mutate::Style;
use crate::random::Random;

pub(super) const TARGET: Target = Target { name: "skills", style: Style::Text, corpus, run };

fn corpus() -> Vec<Vec<u8>> {
    texts(&[
        "---\nname: pdf\ndescription: Reads PDFs.\nlicense: MIT\n---\n# PDF\n\nRead it.\n",
        "\u{feff}---\r\nname: \"pdf\"\r\ndescription: 'it''s'\r\nmetadata: {\"a\": [1, true, null]}\r\n---\r\nBody\r\n",
        "---\nname: pdf\ndescription: >-\n  one\n  two\nallowed-tools:\n  - Read\n  - Bash(git:*)\n---\nBody\n",
        "---\nname: pdf\ndescription: Use when: asked\nargument-hint: [file] [mode]\n...\nBody\n",
        "---\nname: &a pdf\ndescription: !!str *a\nuser-invocable: no\n? x\n: |\n  y\n---\n<!-- hidden -->\n",
    ])
}

/// A file is either parsed, with a name and a description, or rejected with a line and a fix. The linter agrees, and
/// its findings are inside the file.
fn run(input: &[u8], _: &mut Random) -> Verdict {
    let text = String::from_utf8_lossy(input);
    let read = Document::read(&text);
    let report = lint("pdf", input);
    if report.loads != read.is_ok() {
        return Err(format!("the linter reports loads: {}, the parser {read:?}", report.loads));
    }
    let lines = text.split(['\n', '\r']).count();
    if let Some(beyond) = report.findings.iter().find(|finding| finding.line == 0 || finding.line > lines) {
        return Err(format!("a finding is beyond the {lines} lines: {beyond:?}"));
    }
    match read {
        Ok(document) if document.name.trim().is_empty() || document.description.trim().is_empty() => {
            Err(format!("it is parsed without a name or description: {document:?}"))
        }
        Ok(document) if !text.ends_with(document.body) => {
            Err("the body is not the end of the file".to_owned())
        }
        Ok(_) => Ok(if report.is_valid() { "valid" } else { "lenient" }.to_owned()),
        Err(fault) if fault.line == 0 || fault.line > lines + 1 || fault.fix.is_empty() => {
            Err(format!("it is rejected without a line or a fix: {fault:?}"))
        }
        Err(fault) => Ok(kind_of(&fault.reason)),
    }
}
