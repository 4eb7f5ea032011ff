//! Image types that providers accept.

use meerkat_core::{ContentBlock, MediaSource};

/// Types accepted by Anthropic and OpenAI.
#[cfg(any(feature = "anthropic", feature = "chat", feature = "responses"))]
pub(crate) const COMMON: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];

/// Returns the type and the data of an inline image that can be sent to a provider that accepts the `known` types; any
/// other would cause the whole request to be rejected.
pub(crate) fn inline_image<'a>(block: &'a ContentBlock, known: &[&str]) -> Option<(&'a str, &'a str)> {
    match block {
        ContentBlock::Image { media_type, source: MediaSource::Inline { data } } => {
            Some((readable(media_type, known)?, data))
        }
        _ => None,
    }
}

fn readable<'a>(media_type: &'a str, known: &[&str]) -> Option<&'a str> {
    let media_type = if media_type == "image/jpg" { "image/jpeg" } else { media_type };
    known.contains(&media_type).then_some(media_type)
}

#[cfg(test)]
mod tests {
    use super::readable;

    #[test]
    fn media_type_is_mapped_to_a_supported_one() {
        let known = ["image/jpeg"];
        let cases =
            ["image/jpeg", "image/jpg", "image/bmp", ""].map(|media_type| readable(media_type, &known));
        assert_eq!(cases, [Some("image/jpeg"), Some("image/jpeg"), None, None]);
    }
}
