//! What an index says of a document: its first heading and its first paragraph.

/// How long a description may be, in characters.
const DESCRIPTION: usize = 140;

/// Returns the first heading of the first level, wherever it stands.
#[must_use]
pub fn title(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.trim_start().strip_prefix("# ")).map(str::trim)
}

/// Returns the first paragraph that is no heading, on one line; what is too long is cut.
#[must_use]
pub fn description(text: &str) -> Option<String> {
    let mut paragraph = String::new();
    let mut left = DESCRIPTION;
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
    fn the_title_is_the_first_heading_of_the_first_level() {
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
    fn the_description_is_the_first_paragraph() {
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
    fn a_long_description_is_cut_after_140_characters() {
        let of = |count: usize| description(&"ä".repeat(count)).unwrap();
        assert_eq!(of(140), "ä".repeat(140));
        assert_eq!(of(141), format!("{}...", "ä".repeat(140)));
        let lines = format!("{}\n{}", "x".repeat(139), "y");
        assert_eq!(description(&lines).unwrap(), format!("{} ...", "x".repeat(139)));
        let exact = format!("{}\ny", "x".repeat(138));
        assert_eq!(description(&exact).unwrap(), format!("{} y", "x".repeat(138)));
    }

    /// The rule as it is written down: join everything first, then cut.
    fn joined(text: &str) -> Option<String> {
        let mut lines: Vec<&str> = Vec::new();
        for line in text.lines().map(str::trim) {
            match (line.is_empty() || line.starts_with('#'), lines.is_empty()) {
                (true, true) => {}
                (true, false) => break,
                (false, _) => lines.push(line),
            }
        }
        let whole = lines.join(" ");
        match whole.chars().count() {
            0 => None,
            count if count > DESCRIPTION => {
                Some(format!("{}...", whole.chars().take(DESCRIPTION).collect::<String>()))
            }
            _ => Some(whole),
        }
    }

    proptest! {
        #[test]
        fn any_text_is_described_by_the_rule(text in "(#|# | |\n|[a-zä]{1,90}|\r\n){0,20}") {
            prop_assert_eq!(description(&text), joined(&text));
            if let Some(title) = title(&text) {
                prop_assert_eq!(title, title.trim());
            }
        }
    }
}
