//! Replacement for builds without HTTP.

use crate::error::FetchError;

/// A client whose requests fail.
#[derive(Debug, Clone, Default)]
pub struct Http {}

impl Http {
    /// Returns an error.
    ///
    /// # Errors
    /// Always: this build has no HTTP client.
    pub async fn fetch(&self, _: &str, _: &[(String, String)], _: usize) -> Result<Vec<u8>, FetchError> {
        Err(FetchError::NotCompiled)
    }

    /// Returns an error.
    ///
    /// # Errors
    /// Always: this build has no HTTP client.
    pub async fn send(
        &self,
        _: (&str, &str),
        _: &[(String, String)],
        _: &[u8],
        _: usize,
    ) -> Result<Vec<u8>, FetchError> {
        Err(FetchError::NotCompiled)
    }
}
