//! Names of the environment variables that hold secrets. Nothing here reads the environment: the embedder supplies the
//! values.

use std::sync::Arc;

use meerkat_core::Provider;

/// Function that looks up a secret by the name of its environment variable.
pub type SecretSource = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Returns the variables that may hold a provider's key; the first one set is used.
pub(crate) const fn key_variables(provider: Provider) -> &'static [&'static str] {
    match provider {
        Provider::Anthropic => &["RKAT_ANTHROPIC_API_KEY", "ANTHROPIC_API_KEY"],
        Provider::OpenAi => &["RKAT_OPENAI_API_KEY", "OPENAI_API_KEY"],
        Provider::Gemini => {
            &["RKAT_GEMINI_API_KEY", "GEMINI_API_KEY", "RKAT_GOOGLE_API_KEY", "GOOGLE_API_KEY"]
        }
        Provider::SelfHosted | Provider::Other => &[],
    }
}

/// Returns every variable that may hold an API key, with its provider.
#[must_use]
pub fn api_key_variables() -> Vec<(&'static str, Provider)> {
    let with_provider = |provider| key_variables(provider).iter().map(move |name| (*name, provider));
    Provider::ALL.into_iter().flat_map(with_provider).collect()
}

/// Returns `true` if a variable may hold a secret that must not be sent to self-hosted servers: a hosted provider's
/// key, or a secret of Meerkat itself.
pub(crate) fn is_reserved_variable(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    name.starts_with("RKAT_") || api_key_variables().iter().any(|(known, _)| *known == name)
}
