//! Models that generate images; they do not serve sessions.

use meerkat_core::Provider;

/// Returns the image models of a provider, its default first; empty if it has none.
#[must_use]
pub const fn image_models(provider: Provider) -> &'static [&'static str] {
    match provider {
        Provider::OpenAi => &["gpt-image-2", "gpt-image-1", "dall-e-3", "dall-e-2"],
        Provider::Gemini => {
            &["gemini-3.1-flash-image-preview", "gemini-3-pro-image-preview", "gemini-2.5-flash-image"]
        }
        Provider::Anthropic | Provider::SelfHosted | Provider::Other => &[],
    }
}
