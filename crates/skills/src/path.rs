//! Validates names and paths from callers. Paths that could lead out of a skill's directory are rejected before any
//! file is accessed; symlinks are checked again after they are resolved.

use std::path::{Component, Path, PathBuf};

/// Returns the reason why a skill cannot have a name. A name may have any printable characters, including separators,
/// but must not be a path that leads upward.
pub(crate) fn unusable_name(name: &str) -> Option<&'static str> {
    if name.chars().any(char::is_control) {
        return Some("has a control character");
    }
    let upward = name.split(['/', '\\']).any(|segment| matches!(segment.trim(), "." | ".."));
    upward.then_some("has a `.` or `..` path segment")
}

/// Returns the reason why an unknown name is rejected as invalid rather than not found.
pub(crate) fn name_error(name: &str) -> Option<&'static str> {
    let checks = [
        (name.trim().is_empty(), "is empty"),
        (name.contains(['/', '\\']), "has a path separator"),
        (name.chars().any(char::is_control), "has a control character"),
        (name.trim() == "." || name.contains(".."), "has `..` in it"),
        (has_escape(name), "has a percent-encoded character"),
    ];
    checks.into_iter().find_map(|(is_bad, why)| is_bad.then_some(why))
}

/// Returns `true` if a text has a percent sign and two hexadecimal digits.
pub(crate) fn has_escape(text: &str) -> bool {
    text.as_bytes()
        .windows(3)
        .any(|part| part[0] == b'%' && part[1].is_ascii_hexdigit() && part[2].is_ascii_hexdigit())
}

/// Parses a relative path from a caller.
pub(crate) fn relative(text: &str) -> Result<PathBuf, &'static str> {
    let is_absolute =
        text.starts_with('/') || text.split('/').next().is_some_and(|first| first.contains(':'));
    let checks = [
        (text.is_empty(), "it is empty"),
        (text.contains('\0'), "it has a NUL"),
        (text.contains('\\'), "it has a backslash"),
        (has_escape(text), "it has a percent-encoded character"),
        (is_absolute, "it is not relative"),
    ];
    if let Some((_, why)) = checks.into_iter().find(|(is_bad, _)| *is_bad) {
        return Err(why);
    }
    let path = Path::new(text);
    if path.components().all(|part| matches!(part, Component::Normal(_))) {
        Ok(path.components().collect())
    } else {
        Err("it leads out of the skill's directory")
    }
}

/// Decodes one segment of a URI that is part of a path. Rejects encoded separators and double encoding.
pub(crate) fn segment(text: &str) -> Option<String> {
    let hidden =
        |text: &String| text.contains(['/', '\\', '%', '\0']) || matches!(text.as_str(), "" | "." | "..");
    decoded(text).filter(|text| !hidden(text))
}

/// Decodes the segment of a URI that names a skill. Any text is allowed, because it is only compared with names.
pub(crate) fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            let digits = std::str::from_utf8(&digits).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

/// Encodes one segment of a URI.
pub(crate) fn encoded(segment: &str) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(segment.len());
    for byte in segment.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            text.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_out_of_the_skill_are_rejected() {
        for bad in [
            "",
            "/etc/passwd",
            "../x",
            "a/../../x",
            "a\\b",
            "..%2fx",
            "%2e%2e/x",
            "a\0b",
            "C:/x",
            "file:/x",
            "./x/..",
        ] {
            assert!(relative(bad).is_err(), "{bad:?}");
        }
        for good in ["a.md", "references/a b.md", "scripts/100%.sh", "a..b"] {
            assert_eq!(relative(good), Ok(PathBuf::from(good)));
        }
    }

    #[test]
    fn names_that_are_paths_are_rejected() {
        for bad in ["", " ", "../../../etc/passwd", ".ssh/id_rsa", "a\\b", "a\0", "..", "..%2f", "%2e"] {
            assert!(name_error(bad).is_some(), "{bad:?}");
        }
        for good in ["git", "ms-office-suite:pdf", "日本 語", "100% done", "a.b"] {
            assert_eq!(name_error(good), None);
        }
    }

    #[test]
    fn uri_segments_round_trip() {
        for text in ["a b.md", "日本.md", "x-y_z~1"] {
            assert_eq!(segment(&encoded(text)).as_deref(), Some(text));
        }
        for bad in ["%2f", "%2e%2e", "..", "%252f", "%00", "a%", "%zz", ""] {
            assert_eq!(segment(bad), None, "{bad}");
        }
    }
}
