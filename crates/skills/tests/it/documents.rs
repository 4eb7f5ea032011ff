//! Parsing arbitrary SKILL.md files: nothing makes it panic, and values are read as written.

use meerkat_skills::{Document, lint};
use proptest::prelude::*;

use crate::tree::{Fate, STYLES};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn parser_never_panics_on_text(text in ".{0,400}") {
        prop_assert_eq!(lint("a", text.as_bytes()).loads, Document::read(&text).is_ok());
    }

    #[test]
    fn parser_never_panics_on_frontmatter(
        lines in prop::collection::vec("[-a-z:#&*!|>%@`'\"{}\\[\\],? \t]{0,30}", 0..12),
    ) {
        let text = format!("---\n{}\n---\nBody", lines.join("\n"));
        if let Ok(document) = Document::read(&text) {
            prop_assert!(!document.name.trim().is_empty() && !document.description.trim().is_empty());
        }
        prop_assert_eq!(lint("a", text.as_bytes()).loads, Document::read(&text).is_ok());
    }

    #[test]
    fn linter_never_panics_on_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let text = String::from_utf8_lossy(&bytes);
        prop_assert_eq!(lint("a", &bytes).loads, Document::read(&text).is_ok());
    }

    #[test]
    fn quoted_values_are_read_as_written(name in "[a-z][a-z0-9]{0,20}", description in "\\PC{1,200}") {
        prop_assume!(!description.trim().is_empty());
        let quoted = serde_json::to_string(&description).unwrap();
        let text = format!("---\nname: {name}\ndescription: {quoted}\n---\nBody");
        let document = Document::read(&text).unwrap();
        prop_assert_eq!((document.name, document.description), (name, description.trim().to_owned()));
        prop_assert_eq!(document.body, "Body");
    }

    #[test]
    fn unquoted_lines_are_read_as_written(words in "[a-zA-Z][a-zA-Z0-9 .,;()/:-]{0,100}[a-z]") {
        prop_assume!(!matches!(words.to_lowercase().as_str(), "null" | "true" | "false"));
        let text = format!("---\nname: a\ndescription: {words}\n---\n");
        prop_assert_eq!(Document::read(&text).unwrap().description, words);
    }

    #[test]
    fn valid_skills_load(name in "[a-z]{1,9}(-[a-z]{1,9})?", description in ".{0,60}", key in "[a-z-]{1,12}") {
        let text = format!("---\nname: {name}\ndescription: {description}\n{key}: x\n---\nBody");
        let report = lint(&name, text.as_bytes());
        prop_assert!(!report.is_valid() || report.loads, "{:?}", text);
    }
}

#[test]
fn every_style_has_the_expected_result() {
    for (style, _, fate, write) in STYLES {
        let text = write("some-skill");
        assert_eq!(Document::read(&text).is_ok(), fate == Fate::Loads, "{style}: {text:?}");
        assert_eq!(lint("some-skill", text.as_bytes()).loads, fate == Fate::Loads, "{style}");
    }
}

#[test]
fn deeply_nested_yaml_is_read_line_by_line() {
    let text = format!("---\nname: a\ndescription: b\nx: {}{}\n---\n", "[".repeat(5000), "]".repeat(5000));
    let document = Document::read(&text).unwrap();
    assert_eq!(document.name, "a");
}

#[cfg(unix)]
#[test]
fn lint_reads_only_loadable_files() {
    let world = crate::tree::World::new();
    let secret = world.write("secret.md", "secret");
    std::fs::create_dir_all(world.path("skills/leak")).unwrap();
    let link = world.path("skills/leak/SKILL.md");
    std::os::unix::fs::symlink(secret, &link).unwrap();
    let large = world.write("skills/large/SKILL.md", "x".repeat(1024 * 1024 + 1));
    let good = world.skill("skills", "good", "Good").join("SKILL.md");
    let verdict = |file: &std::path::Path| {
        let report = meerkat_skills::lint_file(file);
        (report.loads, report.findings.iter().map(|finding| finding.rule).collect::<Vec<_>>())
    };
    assert_eq!(verdict(&link), (false, vec!["file"]));
    assert_eq!(verdict(&large), (false, vec!["file"]));
    assert_eq!(verdict(&good), (true, vec![]));
}
