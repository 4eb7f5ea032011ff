//! Snapshot filters that replace values which vary between runs with placeholders.

/// Replaces UUIDs with `[uuid]`, RFC 3339 times with `[time]`, and Unix times with `[unix]`.
#[must_use]
pub fn redact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let found =
            [(uuid(rest), "[uuid]"), (time(rest), "[time]"), (unix(rest, out.chars().last()), "[unix]")];
        let found = found.into_iter().find_map(|(length, name)| Some((length?, name)));
        let (length, name) = found.unwrap_or((first.len_utf8(), &rest[..first.len_utf8()]));
        out.push_str(name);
        rest = &rest[length..];
    }
    out
}

fn uuid(text: &str) -> Option<usize> {
    let pattern = "hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh";
    matches(text, pattern).then_some(pattern.len())
}

/// Returns `true` if the start of a text has digits for each `d` of a pattern, and hexadecimal digits for each `h`.
fn matches(text: &str, pattern: &str) -> bool {
    let fits = |(byte, want): (&u8, u8)| match want {
        b'd' => byte.is_ascii_digit(),
        b'h' => byte.is_ascii_hexdigit(),
        want => *byte == want,
    };
    let head = text.as_bytes().get(..pattern.len());
    head.is_some_and(|head| head.iter().zip(pattern.bytes()).all(fits))
}

fn time(text: &str) -> Option<usize> {
    let pattern = "dddd-dd-ddTdd:dd:dd";
    if !matches(text, pattern) {
        return None;
    }
    let tail = text.get(pattern.len()..)?;
    let fraction = tail.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(tail.len());
    tail[fraction..].starts_with('Z').then_some(pattern.len() + fraction + 1)
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
