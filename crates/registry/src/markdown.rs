//! Title and description of a document: its first heading and its first paragraph.

/// Maximum length of a description, in characters.
const MAX_DESCRIPTION_CHARS: usize = 140;

/// Returns the first level-1 heading, anywhere in the document.
#[must_use]
pub fn title(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.trim_start().strip_prefix("# ")).map(str::trim)
}

/// Returns the first paragraph that is not a heading, on one line, truncated if too long.
#[must_use]
pub fn description(text: &str) -> Option<String> {
    let mut paragraph = String::new();
    let mut left = MAX_DESCRIPTION_CHARS;
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            if paragraph.is_empty() {
                continue;
            }
            break;
        }
        let separator = (!paragraph.is_empty()).then_some(' ');
        for character in separator.into_iter().chain(line.chars()) {
            if left == 0 {
                paragraph.push_str("...");
                return Some(paragraph);
            }
            paragraph.push(character);
            left -= 1;
        }
    }
    (!paragraph.is_empty()).then_some(paragraph)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn title_is_the_first_level_1_heading() {
        for (text, expected) in [
            ("# One\n# Two", Some("One")),
            ("text\n\n  # Indented  \n", Some("Indented")),
            ("## Two\n#Three\n# One", Some("One")),
            ("```sh\n# a comment\n```\n# One", Some("a comment")),
            ("# \n# One", Some("")),
            ("#\t# One", None),
            ("#", None),
            ("", None),
            ("# Ünï — ☕\r\nx", Some("Ünï — ☕")),
        ] {
            assert_eq!(title(text), expected, "{text:?}");
        }
    }

    #[test]
    fn description_is_the_first_paragraph() {
        for (text, expected) in [
            ("# T\n\nOne.\n", Some("One.")),
            ("# T\nOne\n  two  \n\nthree", Some("One two")),
            ("One\n# T\ntwo", Some("One")),
            ("#foo\n## bar\nOne\n#baz", Some("One")),
            ("---\nname: x\n---\n\nOne", Some("--- name: x ---")),
            ("# T\n\n   \n", None),
            ("", None),
        ] {
            assert_eq!(description(text).as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn long_description_is_cut_at_140_characters() {
        let describe = |count: usize| description(&"ä".repeat(count)).unwrap();
        assert_eq!(describe(140), "ä".repeat(140));
        assert_eq!(describe(141), format!("{}...", "ä".repeat(140)));
        let lines = format!("{}\n{}", "x".repeat(139), "y");
        assert_eq!(description(&lines).unwrap(), format!("{} ...", "x".repeat(139)));
        let exact = format!("{}\ny", "x".repeat(138));
        assert_eq!(description(&exact).unwrap(), format!("{} y", "x".repeat(138)));
    }

    /// Reference implementation: joins all lines first, then truncates.
    fn reference_description(text: &str) -> Option<String> {
        let mut lines: Vec<&str> = Vec::new();
        for line in text.lines().map(str::trim) {
            match (line.is_empty() || line.starts_with('#'), lines.is_empty()) {
                (true, true) => {}
                (true, false) => break,
                (false, _) => lines.push(line),
            }
        }
        let paragraph = lines.join(" ");
        match paragraph.chars().count() {
            0 => None,
            count if count > MAX_DESCRIPTION_CHARS => {
                Some(format!("{}...", paragraph.chars().take(MAX_DESCRIPTION_CHARS).collect::<String>()))
            }
            _ => Some(paragraph),
        }
    }

    proptest! {
        #[test]
        fn description_matches_reference(text in "(#|# | |\n|[a-zä]{1,90}|\r\n){0,20}") {
            prop_assert_eq!(description(&text), reference_description(&text));
            if let Some(title) = title(&text) {
                prop_assert_eq!(title, title.trim());
            }
        }
    }
}
