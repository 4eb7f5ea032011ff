//! Texts: wildcard patterns, and excerpts.

use meerkat_core::BlobId;

/// Returns `true` if a text matches a pattern in which `*` matches anything.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut from) = (0, 0);
    // Positions to resume from if the text after the last `*` does not match.
    let mut star: Option<(usize, usize)> = None;
    while from < text.len() {
        match (pattern.get(at), star) {
            (Some(b'*'), _) => {
                star = Some((at, from));
                at += 1;
            }
            (Some(letter), _) if *letter == text[from] => {
                at += 1;
                from += 1;
            }
            (_, Some((star_at, star_from))) => {
                star = Some((star_at, star_from + 1));
                at = star_at + 1;
                from = star_from + 1;
            }
            (_, None) => return false,
        }
    }
    pattern[at..].iter().all(|letter| *letter == b'*')
}

/// Returns the head and the tail of a text, with a note in between about the omitted part.
pub(crate) fn head_and_tail(text: &str, limit: usize, blob_id: Option<&BlobId>) -> String {
    let head = text.floor_char_boundary(limit / 4 * 3);
    let tail = text.ceil_char_boundary(text.len().saturating_sub(limit / 4)).max(head);
    let omitted = tail - head;
    let note = match blob_id {
        Some(id) => {
            format!("[… {omitted} bytes omitted; meerkat_blob_get with blob_id {id} returns the full text …]")
        }
        None => format!("[… {omitted} bytes omitted …]"),
    };
    format!("{}\n{note}\n{}", &text[..head], &text[tail..])
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn star_matches_any_characters() {
        let cases =
            [("shell", true), ("shell*", true), ("*", true), ("s*ll", true), ("shel", false), ("", false)];
        assert_eq!(cases.map(|(pattern, _)| matches(pattern, "shell")), cases.map(|(_, fits)| fits));
        assert!(matches("git*_*s", "github__list_issues") && !matches("git*_*s", "github__list_issue"));
    }
}
