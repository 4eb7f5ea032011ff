//! The HTTP client of this build.

/// The HTTP client for providers.
#[cfg(any(feature = "anthropic", feature = "openai", feature = "gemini"))]
pub(crate) use meerkat_providers::Http as Reach;

/// Replacement for builds without providers: no HTTP client.
#[cfg(not(any(feature = "anthropic", feature = "openai", feature = "gemini")))]
#[derive(Default)]
pub(crate) struct Reach {}

/// Fetches a document that does not belong to a provider.
#[cfg(all(feature = "skills", any(feature = "anthropic", feature = "openai", feature = "gemini")))]
pub(crate) async fn fetch(
    reach: &Reach,
    url: &str,
    headers: &[(String, String)],
    limit: usize,
) -> Result<Vec<u8>, meerkat_skills::FetchError> {
    use meerkat_providers::FetchError as HttpError;
    use meerkat_skills::FetchError;
    reach.fetch(url, headers, limit).await.map_err(|error| match error {
        HttpError::Unreachable(reason) => FetchError::Unreachable(reason),
        HttpError::Status(status) => FetchError::Status(status),
        HttpError::TooLong => FetchError::TooLong(limit),
    })
}

/// Sends a hook its input, and returns its output.
#[cfg(any(feature = "anthropic", feature = "openai", feature = "gemini"))]
pub(crate) async fn deliver(
    reach: &Reach,
    target: (&str, &str),
    headers: &[(String, String)],
    body: &[u8],
    limit: usize,
) -> Result<Vec<u8>, meerkat_core::HookFailure> {
    use meerkat_providers::FetchError;
    reach.send(target, headers, body, limit).await.map_err(|error| {
        meerkat_core::HookFailure::runtime_error(match error {
            FetchError::Unreachable(reason) => format!("it cannot be reached: {reason}"),
            FetchError::Status(status) => format!("it returned HTTP {status}"),
            FetchError::TooLong => format!("its response is longer than {limit} bytes"),
        })
    })
}

/// Replacement for builds without providers: hooks cannot be reached.
#[cfg(not(any(feature = "anthropic", feature = "openai", feature = "gemini")))]
#[expect(clippy::unused_async, reason = "same signature as in builds with providers")]
pub(crate) async fn deliver(
    _: &Reach,
    _: (&str, &str),
    _: &[(String, String)],
    _: &[u8],
    _: usize,
) -> Result<Vec<u8>, meerkat_core::HookFailure> {
    Err(meerkat_core::HookFailure::runtime_error("this build has no HTTP client"))
}

/// Replacement for builds without providers: documents cannot be fetched.
#[cfg(all(feature = "skills", not(any(feature = "anthropic", feature = "openai", feature = "gemini"))))]
#[expect(clippy::unused_async, reason = "same signature as in builds with providers")]
pub(crate) async fn fetch(
    _: &Reach,
    _: &str,
    _: &[(String, String)],
    _: usize,
) -> Result<Vec<u8>, meerkat_skills::FetchError> {
    Err(meerkat_skills::FetchError::Unreachable("this build has no HTTP client".to_owned()))
}
