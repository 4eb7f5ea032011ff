//! Snapshot filters that replace values which vary between runs with placeholders.

/// Replaces UUIDs with `[uuid]`, RFC 3339 times with `[time]`, and Unix times with `[unix]`.
#[must_use]
pub fn redact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (length, name) = if let Some(length) = uuid(rest) {
            (length, "[uuid]")
        } else if let Some(length) = time(rest) {
            (length, "[time]")
        } else if let Some(length) = unix(rest, out.chars().last()) {
            (length, "[unix]")
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        out.push_str(name);
        rest = &rest[length..];
    }
    out
}

fn uuid(text: &str) -> Option<usize> {
    let head = text.as_bytes().get(..36)?;
    let fits = head.iter().enumerate().all(|(index, byte)| match index {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    });
    fits.then_some(36)
}

fn time(text: &str) -> Option<usize> {
    let pattern = b"dddd-dd-ddTdd:dd:dd";
    let head = text.as_bytes().get(..pattern.len())?;
    let fits = head.iter().zip(pattern).all(|(byte, want)| match want {
        b'd' => byte.is_ascii_digit(),
        want => byte == want,
    });
    let tail = text.get(pattern.len()..)?;
    let fraction = tail.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(tail.len());
    (fits && tail[fraction..].starts_with('Z')).then_some(pattern.len() + fraction + 1)
}

/// Matches ten digits that start with 1: Unix times from 2001 to 2033.
fn unix(text: &str, before: Option<char>) -> Option<usize> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let alone = !before.is_some_and(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    (digits == 10 && text.starts_with('1') && alone).then_some(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varying_values_are_replaced() {
        let text = "id 01936f8a-7b2c-7000-8000-000000000001 at 2026-11-15T23:44:00.123Z, 1794786240 s, 12 é";
        assert_eq!(redact(text), "id [uuid] at [time], [unix] s, 12 é");
    }
}
