//! The images that providers read.

/// What Anthropic and OpenAI read.
#[cfg(any(feature = "anthropic", feature = "chat", feature = "responses"))]
pub(crate) const COMMON: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];

/// Returns the type under which an image can be sent to a provider that reads the `known` ones; another one
/// would be refused together with everything else in the request.
pub(crate) fn readable<'a>(media_type: &'a str, known: &[&str]) -> Option<&'a str> {
    let media_type = if media_type == "image/jpg" { "image/jpeg" } else { media_type };
    known.contains(&media_type).then_some(media_type)
}

#[cfg(test)]
mod tests {
    use super::readable;

    #[test]
    fn a_picture_is_sent_under_the_name_that_is_known() {
        let known = ["image/jpeg"];
        let cases = ["image/jpeg", "image/jpg", "image/bmp", ""].map(|given| readable(given, &known));
        assert_eq!(cases, [Some("image/jpeg"), Some("image/jpeg"), None, None]);
    }
}
